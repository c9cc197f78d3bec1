#include "control/books/progress.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace divvy {
namespace {

// If the rest of a job would take longer than this, no end is predicted for it.
constexpr double kLongestSeconds = 3e9;

double SecondsOf(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string Percent(std::int64_t done) {
  // Rounds down, so that 99.96 % is not shown as 100 %.
  const std::int64_t tenths = done / (Progress::kAll / 1000);
  return std::to_string(tenths / 10) + (tenths % 10 > 0 ? "." + std::to_string(tenths % 10) : "") + "%";
}

Result<std::int64_t> DoneBy(const ProgressReport& report) {
  const bool has_steps = report.steps != 0 || report.step != 0;
  if (report.fraction.has_value() == has_steps)
    return InvalidArgument("progress is either a fraction (0.35) or steps of a total (1200/100000)");
  if (!has_steps) {
    // The negated condition also rejects NaN.
    if (!(*report.fraction >= 0 && *report.fraction <= 1))
      return InvalidArgument("progress is a fraction: a number from 0 to 1");
    return static_cast<std::int64_t>(std::llround(*report.fraction * static_cast<double>(Progress::kAll)));
  }
  if (report.steps < 1 || report.step < 0 || report.step > report.steps)
    return InvalidArgument("step " + std::to_string(report.step) + " of " + std::to_string(report.steps) +
                           ": the step must be from 0 to the total, and the total at least 1");
  if (report.step == report.steps) return Progress::kAll;
  const double part = static_cast<double>(report.step) / static_cast<double>(report.steps);
  return static_cast<std::int64_t>(part * static_cast<double>(Progress::kAll));
}

std::optional<Duration> Left(const JobRecord& record) {
  if (record.state != JobState::kRunning) return std::nullopt;
  const auto speed = SpeedOf(record.progress);
  if (!speed) return std::nullopt;
  const double part = static_cast<double>(Progress::kAll - record.progress.done) / static_cast<double>(Progress::kAll);
  return Duration(static_cast<std::int64_t>(std::min(part / *speed, kLongestSeconds) * 1e9));
}

}  // namespace

Result<Progress> AfterReport(const Progress& before, const ProgressReport& report, Time now) {
  DIVVY_TRY(const std::int64_t done, DoneBy(report));
  if (before.at != kNoTime && done < before.done)
    return FailedPrecondition("it has reported " + Percent(before.done) + " already, and " + Percent(done) +
                              " is less; a run never goes back");
  Progress after = before;
  after.at = std::max(now, before.at);
  after.done = done;
  after.step = report.step;
  after.steps = report.steps;
  if (after.since == kNoTime) {
    after.since = after.at;
    after.done_since = done;
  }
  return after;
}

void MeasureAnew(Progress& progress) {
  progress.since = kNoTime;
  progress.done_since = 0;
}

std::optional<double> SpeedOf(const Progress& progress) {
  if (progress.since == kNoTime || progress.at - progress.since < kLeastMeasured) return std::nullopt;
  if (progress.done <= progress.done_since) return std::nullopt;
  const double part = static_cast<double>(progress.done - progress.done_since) / static_cast<double>(Progress::kAll);
  return part / SecondsOf(progress.at - progress.since);
}

std::optional<Time> ExpectedEnd(const JobRecord& record) {
  const auto left = Left(record);
  return left ? std::optional(AddSaturating(record.progress.at, *left)) : std::nullopt;
}

std::optional<core::RunSpread> SpreadByProgress(const JobRecord& record) {
  const auto left = Left(record);
  if (!left) return std::nullopt;
  const Duration so_far = record.progress.at - record.started;
  return core::RunSpread{so_far + *left / 4 * 3, so_far + *left / 2 * 3};
}

}  // namespace divvy
