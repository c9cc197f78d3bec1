#include "daemon/services/request_times.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

namespace divvy {
namespace {

constexpr Time kNow(std::chrono::seconds(6000));

std::string LineOf(std::string_view proxy, std::int64_t began, std::int64_t total, int status = 200,
                   std::string_view end = "--") {
  return "R " + std::string(proxy) + " " + std::to_string(began) + " 0 0 0 5 " + std::to_string(total) + " " +
         std::to_string(status) + " " + std::string(end);
}

TEST(ServiceTimes, QuantilesAreWithinASixteenth) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> times(5, 2);
  LatencyHistogram histogram;
  std::vector<std::int64_t> all;
  for (int i = 0; i < 20'000; ++i) {
    all.push_back(std::min<std::int64_t>(static_cast<std::int64_t>(times(random)), 8'000'000));
    histogram.Add(all.back());
  }
  std::ranges::sort(all);
  for (const double share : {0.01, 0.5, 0.95, 0.99, 1.0}) {
    const double exact = static_cast<double>(all[static_cast<std::size_t>(share * 20'000) - 1]) / 1000;
    EXPECT_NEAR(*histogram.Quantile(share), exact, exact / 16 + 1e-9) << share;
  }
  for (int octave = ServiceTimes::kFirstOctave; octave <= ServiceTimes::kLastOctave; ++octave) {
    const auto exact = static_cast<std::uint64_t>(
        std::ranges::count_if(all, [&](std::int64_t ms) { return ms < std::int64_t{1} << octave; }));
    EXPECT_EQ(histogram.CountBelow(octave), exact) << octave;
  }
}

TEST(ServiceTimes, ShortTimesAreExact) {
  EXPECT_EQ(LatencyHistogram().Quantile(0.5), std::nullopt);
  for (std::int64_t ms = 0; ms < 16; ++ms) {
    LatencyHistogram histogram;
    histogram.Add(ms);
    EXPECT_DOUBLE_EQ(*histogram.Quantile(0.5), static_cast<double>(ms) / 1000);
  }
  LatencyHistogram histogram;
  histogram.Add(std::int64_t{1} << 60);
  EXPECT_GT(*histogram.Quantile(0.5), 7000) << "the longest that is counted";
}

TEST(ServiceTimes, ReadsALineOfTheFront) {
  const auto line = ParseRequestLine("R s_chat 1795892445 202 10 1 50 2284 200 --");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->proxy, "s_chat");
  EXPECT_EQ(line->ended_s, 1795892447);
  EXPECT_EQ(line->first_ms, 263);
  EXPECT_EQ(line->total_ms, 2284);
  EXPECT_TRUE(line->has_latency());
  EXPECT_EQ(ParseRequestLine("R s_chat 1795892445 202 -1 -1 -1 300 -1 CH")->first_ms, -1) << "no answer";
  for (const std::string_view other :
       {"", "R", "Proxy f_chat started.", "Server s_chat/r1 is UP, reason: Layer4 check passed, check duration: 0ms.",
        "R s_chat 1 2 3 4 5 6 200 -- more", "R s_chat 1 2 3 4 5 x 200 --", "R s_chat 1 2 3 4 5 200 --",
        "R s_chat 1 2 3 4 5 99999999999999999999 200 --", "R s_chat -1 2 3 4 5 6 200 --"})
    EXPECT_FALSE(ParseRequestLine(other)) << other;
}

TEST(ServiceTimes, OnlyAnswersOfReplicasHaveALatency) {
  const auto has = [](int status, std::string_view end) {
    const std::string text = LineOf("s_chat", 1, 1, status, end);
    return ParseRequestLine(text)->has_latency();
  };
  EXPECT_TRUE(has(200, "--"));
  EXPECT_TRUE(has(500, "--")) << "an error of the replica";
  EXPECT_TRUE(has(504, "sH")) << "the replica was too slow";
  EXPECT_FALSE(has(401, "LR")) << "the front itself has answered";
  EXPECT_FALSE(has(503, "sQ")) << "no replica was free";
  EXPECT_FALSE(has(503, "SC")) << "no replica could be reached";
  EXPECT_FALSE(has(200, "CD")) << "the client has ended it";
  EXPECT_FALSE(has(101, "--")) << "a WebSocket";
}

TEST(ServiceTimes, TheWindowForgetsEarlierMinutes) {
  ServiceTimes times;
  const auto add = [&](std::int64_t began, std::int64_t total) {
    const std::string text = LineOf("s", began, total);
    times.Add(*ParseRequestLine(text));
  };
  const auto recent = [&](std::int64_t second) {
    return times.RecentAt(TimeFromSeconds(static_cast<double>(second))).total.count();
  };
  add(6000, 10);
  add(6059, 10);
  add(6060, 10);
  EXPECT_EQ(recent(6060), 3U);
  EXPECT_EQ(recent(6000 + 299), 3U);
  EXPECT_EQ(recent(6000 + 300), 1U) << "the first minute is five minutes old";
  EXPECT_EQ(recent(6000 + 360), 0U);
  add(6300, 10);
  add(6001, 10);
  EXPECT_EQ(recent(6300), 2U) << "a line that is too late for the window counts in the sum only";
  EXPECT_EQ(times.all().count(), 5U);
}

TEST(ServiceTimes, CostIsThatOfTheTimeOfReplicas) {
  ServiceTimes times;
  times.AddUse(TimeFromSeconds(6000), 500, 1200);
  times.AddUse(TimeFromSeconds(6030), 500, 1200);
  times.AddUse(TimeFromSeconds(6020), 500, 1200);  // The clock was set back.
  times.AddUse(TimeFromSeconds(6030), 500, 1200);
  EXPECT_DOUBLE_EQ(times.gpu_seconds(), 20);
  EXPECT_DOUBLE_EQ(times.RecentAt(TimeFromSeconds(6030)).cost, 40 * 1.2 / 3600);
}

class RequestPipe : public testing::Test {
 protected:
  RequestPipe() {
    char path[] = "/tmp/divvy-times-XXXXXX";
    folder_ = ::mkdtemp(path);
  }
  ~RequestPipe() override { std::filesystem::remove_all(folder_); }
  Descriptor Writer() { return Descriptor(::open(RequestPipeIn(folder_).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)); }
  static bool Write(const Descriptor& pipe, const std::string& text) {
    return ::write(pipe.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  std::string folder_;
};

TEST_F(RequestPipe, ReadsWhatSeveralProcessesWrite) {
  RequestTimes times;
  ASSERT_TRUE(times.Open(folder_));
  struct stat facts {};
  ASSERT_EQ(::stat(RequestPipeIn(folder_).c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U) << "of its user only";
  times.Keep("s_chat");
  const Descriptor old = Writer();
  const Descriptor present = Writer();
  const std::string line = LineOf("s_chat", 1000, 7);
  ASSERT_TRUE(Write(old, line + "\n"));
  ASSERT_TRUE(Write(present, LineOf("s_other", 1000, 7) + "\n" + line.substr(0, 10)));
  EXPECT_EQ(times.Read(kNow), 2U);
  ASSERT_TRUE(Write(present, line.substr(10) + "\n"));
  EXPECT_EQ(times.Read(kNow), 1U);
  EXPECT_EQ(times.Read(kNow), 0U);
  EXPECT_EQ(times.Find("s_chat")->all().count(), 2U);
  EXPECT_EQ(times.Find("s_other"), nullptr) << "nobody asked for it";
}

TEST_F(RequestPipe, RequestsOfACanaryAreThoseOfItsService) {
  RequestTimes times;
  ASSERT_TRUE(times.Open(folder_));
  times.Keep("s_chat");
  times.Keep("c_chat");
  const Descriptor front = Writer();
  ASSERT_TRUE(Write(front, LineOf("s_chat", 1000, 7) + "\n" + LineOf("c_chat", 1000, 7) + "\n"));
  times.Read(kNow);
  EXPECT_EQ(times.Find("s_chat")->all().count(), 2U);
  EXPECT_EQ(times.Find("c_chat")->all().count(), 1U);
}

TEST_F(RequestPipe, CountsRequestsThatTheFrontFoundTooLarge) {
  RequestTimes times;
  ASSERT_TRUE(times.Open(folder_));
  times.Keep("s_chat");
  const Descriptor front = Writer();
  ASSERT_TRUE(Write(front, "R f_chat 9000 0 -1 -1 -1 0 413 LR\nR f_chat 9000 0 -1 -1 -1 0 401 LR\n"));
  EXPECT_EQ(times.Read(kNow), 2U);
  const ServiceTimes::Recent recent = times.Find("s_chat")->RecentAt(kNow);
  EXPECT_EQ(recent.too_large, 1);
  EXPECT_EQ(recent.total.count(), 0U) << "no replica has answered";
}

TEST_F(RequestPipe, AFullPipeLosesLinesAndNothingElse) {
  RequestTimes times;
  ASSERT_TRUE(times.Open(folder_));
  times.Keep("s_chat");
  const Descriptor front = Writer();
  const std::string line = LineOf("s_chat", 1000, 7) + "\n";
  std::uint64_t written = 0;
  while (Write(front, line)) ++written;
  std::size_t read = 0;
  while (const std::size_t lines = times.Read(kNow)) read += lines;
  EXPECT_EQ(read, written);
  EXPECT_EQ(times.Find("s_chat")->all().count(), written);
  ASSERT_TRUE(Write(front, std::string(3000, 'x')));
  times.Read(kNow);
  ASSERT_TRUE(Write(front, std::string(3000, 'x') + "\n" + line));
  times.Read(kNow);
  EXPECT_EQ(times.Find("s_chat")->all().count(), written + 1) << "a line that is too long";
}

TEST_F(RequestPipe, AFileOfThatNameIsNoPipe) {
  EXPECT_EQ(RequestLogIn(folder_), "/dev/null");
  std::ofstream(RequestPipeIn(folder_)) << "text";
  RequestTimes times;
  EXPECT_NE(times.Open(folder_).error().message.find("is not a pipe"), std::string::npos);
  EXPECT_EQ(RequestLogIn(folder_), "/dev/null") << "HAProxy starts all the same";
}

TEST_F(RequestPipe, KeepsWhatIsInItForTheNextDaemon) {
  Descriptor front;
  {
    RequestTimes before;
    ASSERT_TRUE(before.Open(folder_));
    front = Writer();
  }
  ASSERT_TRUE(Write(front, LineOf("s_chat", 1000, 7) + "\n"));
  RequestTimes times;
  ASSERT_TRUE(times.Open(folder_));
  times.Keep("s_chat");
  EXPECT_EQ(times.Read(kNow), 1U);
}

TEST_F(RequestPipe, OnlyWhatWasLeftCountsAtTheSecondOfTheFront) {
  RequestTimes times;
  ASSERT_TRUE(times.Open(folder_));
  times.Keep("s_chat");
  const Descriptor front = Writer();
  const auto recent = [&] { return times.Find("s_chat")->RecentAt(kNow).total.count(); };
  // The second line is from a clock that is ahead.
  ASSERT_TRUE(Write(front, LineOf("s_chat", 1000, 7) + "\n" + LineOf("s_chat", 9000, 7) + "\n"));
  times.Read(kNow);
  EXPECT_EQ(recent(), 1U);
  ASSERT_TRUE(Write(front, LineOf("s_chat", 1000, 7) + "\n" + LineOf("s_chat", 9000, 7) + "\n"));
  times.Read(kNow);
  EXPECT_EQ(recent(), 3U);
}

}  // namespace
}  // namespace divvy
