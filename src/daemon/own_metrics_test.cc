#include "daemon/own_metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace divvy {
namespace {

std::string Shown(const std::vector<samples::Reading>& readings) {
  std::string text;
  for (const samples::Reading& reading : readings) {
    char value[32];
    std::snprintf(value, sizeof value, "%g", reading.value);
    text += (text.empty() ? "" : " ") + reading.name + "=" + value;
  }
  return text;
}

TEST(OwnReadings, AreTheNumbersOfAnObject) {
  EXPECT_EQ(Shown(OwnReadings(R"({"step": 10, "loss": 0.3, "note": "x", "more": {"a": 1}, "list": [1]})")),
            "step=10 loss=0.3");
  EXPECT_EQ(Shown(OwnReadings(R"(  {"a": -1e3}  )")), "a=-1000");
  for (const char* line : {"", "loss 0.3", "{", "[1]", "{\"a\": }", "{\"a\": 1} tail", "{\"\": 1}",
                           "{\"a\\u0000b\": 1}", "{\"x\": 1e999}"})
    EXPECT_EQ(Shown(OwnReadings(line)), "") << line;
  EXPECT_EQ(Shown(OwnReadings(R"({"a": 1, "a": 2})")), "a=2");
}

TEST(OwnReadings, OfEndlessNamesAreBounded) {
  std::string line = "{";
  for (int i = 0; i < 500; ++i) line += (i == 0 ? "\"n" : ",\"n") + std::to_string(i) + "\":1";
  EXPECT_EQ(OwnReadings(line + "}").size(), OwnMetrics::kMostNames);
  EXPECT_TRUE(OwnReadings("{\"" + std::string(100, 'x') + "\": 1}").empty());
}

class OwnMetricsTest : public testing::Test {
 protected:
  OwnMetricsTest() {
    char name[] = "/tmp/divvy-own-test.XXXXXX";
    folder_ = ::mkdtemp(name);
    Look({});  // So that jobs are not taken for older than we are.
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

TEST_F(OwnMetricsTest, EachSecondHasTheNewestOfWhatHasCome) {
  Write("hello\n{\"loss\": 3}\n{\"loss\": 2}\n");
  EXPECT_EQ(Look({Source()}), "loss=2");
  EXPECT_EQ(Look({Source()}), "");
  Write("{\"loss\": ");
  EXPECT_EQ(Look({Source()}), "");
  Write("1}\n");
  EXPECT_EQ(Look({Source()}), "loss=1");
}

TEST_F(OwnMetricsTest, LastWordsComeWithTheEnd) {
  Write("{\"loss\": 3}\n");
  Look({Source()});
  Write("{\"loss\": 1}\n");
  EXPECT_EQ(Look({}), "loss=1");
  Write("{\"loss\": 0}\n");
  EXPECT_EQ(Look({}), "");
}

TEST_F(OwnMetricsTest, WhatWasThereBeforeALaterAttemptIsNotReadAgain) {
  Write("{\"loss\": 3}\n");
  EXPECT_EQ(Look({Source(2)}), "");
  Write("{\"loss\": 1}\n");
  EXPECT_EQ(Look({Source(2)}), "loss=1");
}

TEST_F(OwnMetricsTest, AFloodIsPassedOverToItsEnd) {
  std::string flood;
  for (int i = 0; i < 100'000; ++i) flood += "{\"step\": " + std::to_string(i) + "}\n";
  Write(flood);
  EXPECT_EQ(Look({Source()}), "step=99999");
  EXPECT_EQ(Look({Source()}), "");
}

TEST_F(OwnMetricsTest, ALogThatIsNotThereIsNoTrouble) { EXPECT_EQ(Look({Source()}), ""); }

}  // namespace
}  // namespace divvy
