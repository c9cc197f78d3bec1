#include "dialect/options/quantities.h"

#include <gtest/gtest.h>

#include <csignal>

#include "dialect/options/test_surroundings.h"

namespace divvy::dialect {
namespace quantities_test {

std::int64_t Size(std::string_view text, std::int64_t bare = 1) {
  const auto size = ParseSize(text, bare);
  EXPECT_TRUE(size) << text << ": " << size.error().message;
  return size ? size->count() : -1;
}

TEST(Sizes, ReadsEveryUsualForm) {
  const std::int64_t mib = 1 << 20;
  const std::int64_t gib = mib * 1024;
  for (const auto& [text, bytes] : std::vector<std::pair<std::string, std::int64_t>>{{"20G", 20 * gib},
                                                                                     {"24g", 24 * gib},
                                                                                     {"20GB", 20 * gib},
                                                                                     {"20GiB", 20 * gib},
                                                                                     {"20 GiB", 20 * gib},
                                                                                     {" 20gb ", 20 * gib},
                                                                                     {"512MiB", 512 * mib},
                                                                                     {"16384M", 16 * gib},
                                                                                     {"1.5T", 1536 * gib},
                                                                                     {".5G", 512 * mib},
                                                                                     {"0.25k", 256},
                                                                                     {"7B", 7},
                                                                                     {"100", 100},
                                                                                     {"0", 0},
                                                                                     {"0G", 0},
                                                                                     {"007M", 7 * mib},
                                                                                     {"1P", 1024 * 1024 * gib}}) {
    EXPECT_EQ(Size(text), bytes) << text;
  }
  EXPECT_EQ(Size("100", mib), 100 * mib);
  EXPECT_EQ(Size("1.5", mib), mib + mib / 2);
  EXPECT_EQ(Size("100K", mib), 100 * 1024) << "a unit wins over the bare one";
}

TEST(Sizes, PrintsShortSizes) {
  for (const auto& [bytes, text] : std::vector<std::pair<Bytes, std::string>>{{Bytes(0), "0 B"},
                                                                              {Bytes(512), "512 B"},
                                                                              {20_GiB, "20 GiB"},
                                                                              {512_MiB, "512 MiB"},
                                                                              {1536_GiB, "1.5 TiB"},
                                                                              {81559_MiB, "79.6 GiB"},
                                                                              {Bytes((1 << 30) - 1), "1 GiB"},
                                                                              {Bytes(-2048), "-2 KiB"}}) {
    EXPECT_EQ(FormatSize(bytes), text);
  }
}

TEST(Durations, ReadsEveryUsualForm) {
  for (const auto& [text, duration] :
       std::vector<std::pair<std::string, Duration>>{{"90s", 90s},         {"5m", 5min},
                                                     {"1h30m", 90min},     {"1h 30m 5s", 90min + 5s},
                                                     {"2d", 48h},          {"1w", 168h},
                                                     {"1.5h", 90min},      {"01:30:00", 90min},
                                                     {"1-12:00:00", 36h},  {"90:30", 90min + 30s},
                                                     {"90", 90min},        {"0", 0s},
                                                     {"1.5", 90s},         {"2 hours", 2h},
                                                     {"1 Day 2 HRS", 26h}, {"250ms", 250ms},
                                                     {"30sec", 30s},       {"0-00:00:01", 1s},
                                                     {"100:00:00", 100h},  {"36500d", std::chrono::hours(876'000)}}) {
    const auto read = ParseDuration(text, 1min);
    ASSERT_TRUE(read) << text << ": " << read.error().message;
    EXPECT_EQ(*read, duration) << text;
  }
  EXPECT_EQ(ParseDuration("90", 1s).value(), 90s);
}

TEST(Durations, ReadsSlurmsTimeAsDocumented) {
  for (const auto& [text, duration] : std::vector<std::pair<std::string, Duration>>{{"90", 90min},
                                                                                    {"90:30", 90min + 30s},
                                                                                    {"2:30:15", 150min + 15s},
                                                                                    {"2-12", 60h},
                                                                                    {"2-12:30", 60h + 30min},
                                                                                    {"2-12:30:15", 60h + 30min + 15s},
                                                                                    {"0", 0s},
                                                                                    {"infinite", 0s},
                                                                                    {"UNLIMITED", 0s},
                                                                                    {"-1", 0s},
                                                                                    {"00:90", 90s},
                                                                                    {"0-0:0:0", 0s},
                                                                                    {"24:00:00", 24h}}) {
    const auto read = ParseSlurmTime(text);
    ASSERT_TRUE(read) << text << ": " << read.error().message;
    EXPECT_EQ(*read, duration) << text;
  }
}

TEST(Durations, PrintsTheTwoLargestUnits) {
  for (const auto& [duration, text] : std::vector<std::pair<Duration, std::string>>{{90min, "1 h 30 min"},
                                                                                    {45s, "45 s"},
                                                                                    {51h, "2 d 3 h"},
                                                                                    {300ms, "0.3 s"},
                                                                                    {12ms, "12 ms"},
                                                                                    {0s, "0 s"},
                                                                                    {4200ms, "4.2 s"},
                                                                                    {1h, "1 h"},
                                                                                    {24h + 5min, "1 d"},
                                                                                    {61s, "1 min 1 s"},
                                                                                    {-90s, "-1 min 30 s"},
                                                                                    {2500us, "2.5 ms"}}) {
    EXPECT_EQ(FormatDuration(duration), text);
  }
}

TEST(Durations, ClocksHaveSlurmsFormat) {
  EXPECT_EQ(FormatClock(26h + 3min + 4s), "1-02:03:04");
  EXPECT_EQ(FormatClock(2h + 3min + 4s), "02:03:04");
  EXPECT_EQ(FormatClock(3min + 4s), "3:04");
  EXPECT_EQ(FormatClock(0s), "0:00");
  EXPECT_EQ(FormatClock(-5s), "0:00");
}

/// Seconds after noon UTC of the test's Monday, which is 13:00 local time.
std::int64_t Moment(std::string_view text) {
  const auto moment = ParseMoment(text, kTestNow, 1h);
  EXPECT_TRUE(moment) << text << ": " << moment.error().message;
  return moment ? (*moment - kTestNow) / 1s : -1;
}

TEST(DateTimes, ReadsEveryUsualForm) {
  constexpr std::int64_t kHour = 3600;
  for (const auto& [text, seconds] :
       std::vector<std::pair<std::string, std::int64_t>>{{"now", 0},
                                                         {"now+1h", kHour},
                                                         {"now+30", 30},
                                                         {"NOW + 2 days", 48 * kHour},
                                                         {"now+1:00:00", kHour},
                                                         {"today", 0},
                                                         {"16:00", 3 * kHour},
                                                         {"16:00:30", 3 * kHour + 30},
                                                         {"4:00pm", 3 * kHour},
                                                         {"4:00 PM", 3 * kHour},
                                                         {"12:30", 23 * kHour + 1800},
                                                         {"13:00", 24 * kHour},
                                                         {"12:00am", 11 * kHour},
                                                         {"midnight", 11 * kHour},
                                                         {"tomorrow", 11 * kHour},
                                                         {"noon", 23 * kHour},
                                                         {"teatime", 3 * kHour},
                                                         {"2026-03-03", 11 * kHour},
                                                         {"2026-03-02T16:00", 3 * kHour},
                                                         {"2026-03-02T16:00:30", 3 * kHour + 30},
                                                         {"2026-03-02 16:00", 3 * kHour},
                                                         {"2026-03-02T16:00Z", 4 * kHour},
                                                         {"2026-03-02T16:00+02:00", 2 * kHour},
                                                         {"2026-03-02T16:00-0500", 9 * kHour},
                                                         {"2026-03-01T12:00", -25 * kHour},
                                                         {"03/03/26", 11 * kHour},
                                                         {"3/3/2026", 11 * kHour},
                                                         {"3/3", 11 * kHour},
                                                         {"03/02/26-16:00", 3 * kHour},
                                                         {"3/1", (364 * 24 - 13) * kHour}}) {
    EXPECT_EQ(Moment(text), seconds) << text;
  }
}

TEST(DateTimes, February29IsTheNextLeapDay) {
  const auto moment = ParseMoment("2/29", kTestNow, 0h);
  ASSERT_TRUE(moment);
  EXPECT_EQ(*moment, *ParseMoment("2028-02-29", kTestNow, 0h));
}

TEST(DateTimes, PastTimesAreBeforeNow) {
  constexpr std::int64_t kHour = 3600;
  // It is Monday, 13:00 local time.
  for (const auto& [text, seconds] :
       std::vector<std::pair<std::string, std::int64_t>>{{"now", 0},
                                                         {"2h", -2 * kHour},
                                                         {"7d", -168 * kHour},
                                                         {"5", -5 * kHour},
                                                         {"90m", -90 * 60},
                                                         {"12:30", -30 * 60},
                                                         {"13:00", 0},
                                                         {"16:00", -21 * kHour},
                                                         {"00:10", -kHour * 13 + 600},
                                                         {"4:00pm", -21 * kHour},
                                                         {"today", -13 * kHour},
                                                         {"Yesterday", -37 * kHour},
                                                         {"2026-03-01", -37 * kHour},
                                                         {"3/1", -37 * kHour},
                                                         {"03/03", -(364 * 24 + 13) * kHour}}) {
    const auto moment = ParsePastMoment(text, kTestNow, 1h);
    ASSERT_TRUE(moment) << text << ": " << moment.error().message;
    EXPECT_EQ((*moment - kTestNow) / 1s, seconds) << text;
  }
  for (const std::string text : {"-1h", "tomorrow", "", "16:99", "later"}) {
    const auto moment = ParsePastMoment(text, kTestNow, 1h);
    ASSERT_FALSE(moment) << text;
    EXPECT_NE(moment.error().message.find("2h or 7d (ago), 16:00, yesterday"), std::string::npos) << text;
  }
}

TEST(Signals, NamesAndNumbersAreEquivalent) {
  for (const std::string text : {"SIGUSR1", "USR1", "usr1", "10", " SigUsr1 "})
    EXPECT_EQ(ParseSignal(text).value(), SIGUSR1) << text;
  EXPECT_EQ(ParseSignal("RTMIN+3").value(), 37);
  EXPECT_EQ(ParseSignal("64").value(), 64);
  EXPECT_EQ(SignalName(SIGUSR1), "SIGUSR1");
  EXPECT_EQ(SignalName(SIGABRT), "SIGABRT");
  EXPECT_EQ(SignalName(37), "SIGRTMIN+3");
  for (int signal = 1; signal <= 31; ++signal) EXPECT_EQ(ParseSignal(SignalName(signal)).value(), signal);
}

}  // namespace quantities_test
}  // namespace divvy::dialect
