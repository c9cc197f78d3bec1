#include "daemon/node/own_metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace divvy {
namespace own_metrics_test {

std::string Shown(const std::vector<samples::Reading>& readings) {
  std::string text;
  for (const samples::Reading& reading : readings) {
    char value[32];
    std::snprintf(value, sizeof value, "%g", reading.value);
    const std::string name = reading.name.empty() ? std::string(FactsOf(reading.metric).name) : reading.name;
    text += (text.empty() ? "" : " ") + name + "=" + value;
  }
  return text;
}

class OwnMetricsTest : public testing::Test {
 protected:
  OwnMetricsTest() {
    std::string name = testing::TempDir() + "divvy-own-test.XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~OwnMetricsTest() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text) { std::ofstream(folder_ + "/log", std::ios::app) << text; }
  OwnMetrics::Source Source(std::uint32_t attempt = 1) const { return {17, attempt, {folder_ + "/log", true, {}}}; }
  std::string Look(const std::vector<OwnMetrics::Source>& sources) {
    samples::Snapshot out;
    metrics_.Look(sources, "n1", out);
    return out.samples.empty() ? "" : Shown(out.samples[0].readings);
  }
  std::string folder_;
  OwnMetrics metrics_;
};

TEST_F(OwnMetricsTest, EachSecondHasTheNewestReportedValue) {
  Write("hello\n{\"loss\": 3}\n{\"loss\": 2}\n");
  EXPECT_EQ(Look({Source()}), "loss=2");
  EXPECT_EQ(Look({Source()}), "");
  Write("{\"loss\": ");
  EXPECT_EQ(Look({Source()}), "");
  Write("1}\n");
  EXPECT_EQ(Look({Source()}), "loss=1");
}

TEST_F(OwnMetricsTest, OfARunThatIsOlderThanThisProcessOnlyLaterLinesAreRead) {
  Write("{\"loss\": 3}\n");
  OwnMetrics::Source older = Source();
  older.is_older = true;
  EXPECT_EQ(Look({older}), "");
  Write("{\"loss\": 2}\n");
  EXPECT_EQ(Look({older}), "loss=2");
}

TEST_F(OwnMetricsTest, LastValuesArriveWithTheEnd) {
  Write("{\"loss\": 3}\n");
  Look({Source()});
  Write("{\"loss\": 1}\n");
  EXPECT_EQ(Look({}), "loss=1");
  Write("{\"loss\": 0}\n");
  EXPECT_EQ(Look({}), "");
}

TEST_F(OwnMetricsTest, TheLastLineNeedsNoNewline) {
  Write("{\"loss\": 3}\n{\"loss\": 2}");
  EXPECT_EQ(Look({Source()}), "loss=3");
  EXPECT_EQ(Look({}), "loss=2");
  Write("\n{\"loss\": 1}\n");
  EXPECT_EQ(Look({Source(2)}), "loss=1");
}

TEST_F(OwnMetricsTest, LinesMayBeginWithBlanks) {
  Write("  {\"loss\": 3}\n\t{\"step\": 2}\n");
  EXPECT_EQ(Look({Source()}), "loss=3 step=2");
}

TEST_F(OwnMetricsTest, EarlierOutputIsNotReadAgainForALaterAttempt) {
  Write("{\"loss\": 3}\n");
  EXPECT_EQ(Look({Source(2)}), "");
  Write("{\"loss\": 1}\n");
  EXPECT_EQ(Look({Source(2)}), "loss=1");
}

// The attempt ends before it is ever sampled: it appears among the sources once, with its complete output.
TEST_F(OwnMetricsTest, AShortSecondAttemptIsReadFromTheEndOfTheFirst) {
  Write("{\"loss\": 3}\n");
  EXPECT_EQ(Look({Source()}), "loss=3");
  Write("{\"loss\": 2}\n");
  EXPECT_EQ(Look({}), "loss=2");
  EXPECT_EQ(Look({}), "");
  Write("{\"loss\": 1}\n");
  EXPECT_EQ(Look({Source(2)}), "loss=1");
  EXPECT_EQ(Look({}), "");
  // The third attempt follows at once.
  Write("{\"loss\": 0.5}\n");
  Look({Source(3)});
  Write("{\"loss\": 0.25}\n");
  EXPECT_EQ(Look({Source(4)}), "loss=0.25");
}

TEST_F(OwnMetricsTest, ALaterAttemptMayTruncateItsLog) {
  Write("words of the first\n{\"loss\": 3}\n");
  Look({Source()});
  Look({});
  std::ofstream(folder_ + "/log") << "{\"loss\": 2}\n";
  EXPECT_EQ(Look({Source(2)}), "loss=2");
}

TEST_F(OwnMetricsTest, ALaterAttemptWithItsOwnLogIsReadFromTheBeginning) {
  Write("{\"loss\": 3}\n");
  Look({Source()});
  Look({});
  std::ofstream(folder_ + "/other") << "{\"loss\": 9}\n{\"loss\": 8}\n";
  OwnMetrics::Source other = Source(2);
  other.log.path = folder_ + "/other";
  EXPECT_EQ(Look({other}), "") << "how much of it is of this attempt is not known";
}

TEST_F(OwnMetricsTest, AFloodOfOutputIsSkippedToItsEnd) {
  std::string flood;
  for (int i = 0; i < 100'000; ++i) flood += "{\"step\": " + std::to_string(i) + "}\n";
  Write(flood);
  // The number of lines that were not even read is estimated from their bytes.
  const std::string seen = Look({Source()});
  ASSERT_TRUE(seen.starts_with("own_lines_left_out=") && seen.ends_with(" step=99999")) << seen;
  EXPECT_NEAR(std::stod(seen.substr(19)), 100'000 - 50, 2000);
  EXPECT_EQ(Look({Source()}), "");
}

TEST_F(OwnMetricsTest, LinesBeyondTheLimitPerSecondAreCounted) {
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += "{\"step\": " + std::to_string(i) + "}\nwords\n";
  Write(lines);
  EXPECT_EQ(Look({Source()}), "own_lines_left_out=10 step=59");
  Write("{\"step\": 60, \"loss\": NaN}\n");
  EXPECT_EQ(Look({Source()}), "step=60 loss=nan");
}

TEST_F(OwnMetricsTest, AMissingLogIsNoError) { EXPECT_EQ(Look({Source()}), ""); }

}  // namespace own_metrics_test
}  // namespace divvy
