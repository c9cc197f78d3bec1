#include "control/books/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace divvy {
namespace progress_test {

using namespace std::chrono_literals;

const Time kNoon = Time(std::chrono::hours(500'000));

ProgressReport Part(double fraction) { return {fraction, 0, 0}; }
ProgressReport Steps(std::int64_t step, std::int64_t steps) { return {std::nullopt, step, steps}; }

Progress Reported(const Progress& before, const ProgressReport& report, Time now) {
  const auto after = AfterReport(before, report, now);
  EXPECT_TRUE(after) << (after ? "" : after.error().message);
  return after ? *after : Progress();
}

JobRecord Running(const Progress& progress) {
  JobRecord record;
  record.state = JobState::kRunning;
  record.started = kNoon - 60s;
  record.progress = progress;
  return record;
}

TEST(Progress, AFractionAndStepsAreEquivalent) {
  const Progress part = Reported({}, Part(0.35), kNoon);
  EXPECT_EQ(part.done, 350'000'000);
  EXPECT_EQ(part.at, kNoon);
  const Progress steps = Reported({}, Steps(35, 100), kNoon);
  EXPECT_EQ(steps.done, part.done);
  EXPECT_EQ(steps.step, 35);
  EXPECT_EQ(steps.steps, 100);
  EXPECT_EQ(Reported({}, Steps(1, 1), kNoon).done, Progress::kAll);
  EXPECT_EQ(
      Reported({}, Steps(std::numeric_limits<std::int64_t>::max() - 1, std::numeric_limits<std::int64_t>::max()), kNoon)
          .done,
      Progress::kAll);
}

TEST(Progress, RefusesProgressOutsideTheTotal) {
  const double bad[] = {std::nan(""), INFINITY, -INFINITY, -0.1, 1.0001, 35};
  for (const double fraction : bad) EXPECT_FALSE(AfterReport({}, Part(fraction), kNoon)) << fraction;
  EXPECT_FALSE(AfterReport({}, Steps(5, 4), kNoon));
  EXPECT_FALSE(AfterReport({}, Steps(-1, 4), kNoon));
  EXPECT_FALSE(AfterReport({}, Steps(1, 0), kNoon));
  EXPECT_FALSE(AfterReport({}, Steps(1, -4), kNoon));
  EXPECT_FALSE(AfterReport({}, {}, kNoon)) << "neither";
  EXPECT_FALSE(AfterReport({}, {0.5, 1, 2}, kNoon)) << "both";
}

TEST(Progress, ProgressNeverDecreasesButMayStandStill) {
  const Progress first = Reported({}, Part(0.4), kNoon);
  const auto back = AfterReport(first, Part(0.3), kNoon + 1s);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().message, "it has reported 40% already, and 30% is less; a run never goes back");
  EXPECT_EQ(Reported(first, Part(0.4), kNoon + 5s).at, kNoon + 5s);
}

TEST(Progress, TheEndIsEstimatedFromTwoReportsFarEnoughApart) {
  Progress progress = Reported({}, Part(0.2), kNoon);
  EXPECT_FALSE(ExpectedEnd(Running(progress))) << "one report: how much of it was done before the run?";
  progress = Reported(progress, Part(0.25), kNoon + 9s);
  EXPECT_FALSE(ExpectedEnd(Running(progress))) << "too close together";
  progress = Reported(progress, Part(0.3), kNoon + 100s);
  // A tenth of the work took 100 s, so the rest takes 700 s.
  ASSERT_TRUE(ExpectedEnd(Running(progress)));
  EXPECT_NEAR(ToSeconds(*ExpectedEnd(Running(progress)) - kNoon), 800, 0.001);
  const auto spread = SpreadByProgress(Running(progress));
  ASSERT_TRUE(spread);
  EXPECT_NEAR(ToSeconds(spread->low), 160 + 525, 0.001);
  EXPECT_NEAR(ToSeconds(spread->high), 160 + 1050, 0.001);
}

TEST(Progress, AStalledOrStoppedJobHasNoExpectedEnd) {
  Progress progress = Reported({}, Part(0.2), kNoon);
  progress = Reported(progress, Part(0.2), kNoon + 100s);
  EXPECT_FALSE(ExpectedEnd(Running(progress)));
  progress = Reported(progress, Part(0.3), kNoon + 200s);
  JobRecord record = Running(progress);
  EXPECT_TRUE(ExpectedEnd(record));
  record.state = JobState::kPaused;
  EXPECT_FALSE(ExpectedEnd(record));
}

TEST(Progress, ANearlyStalledJobEndsFarAwayWithoutOverflow) {
  Progress progress = Reported({}, Part(0), kNoon);
  progress = Reported(progress, Part(1e-9), kNoon + std::chrono::hours(24 * 365));
  ASSERT_TRUE(ExpectedEnd(Running(progress)));
  EXPECT_GT(*ExpectedEnd(Running(progress)), kNoon + std::chrono::hours(24 * 365 * 50));
}

TEST(Progress, AClockThatWentBackGivesNoSpeed) {
  Progress progress = Reported({}, Part(0.2), kNoon);
  progress = Reported(progress, Part(0.5), kNoon - 100s);
  EXPECT_EQ(progress.at, kNoon);
  EXPECT_FALSE(ExpectedEnd(Running(progress)));
}

TEST(Progress, AfterAResetOnlyLaterReportsCount) {
  Progress progress = Reported({}, Part(0), kNoon);
  progress = Reported(progress, Part(0.1), kNoon + 100s);
  MeasureAnew(progress);
  EXPECT_FALSE(SpeedOf(progress));
  progress = Reported(progress, Part(0.2), kNoon + 1000s);
  EXPECT_FALSE(SpeedOf(progress));
  progress = Reported(progress, Part(0.4), kNoon + 1100s);
  ASSERT_TRUE(SpeedOf(progress));
  EXPECT_NEAR(*SpeedOf(progress), 0.002, 1e-9);
}

}  // namespace progress_test
}  // namespace divvy
