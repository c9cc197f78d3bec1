// The progress that jobs report, and what follows from it: their speed and expected end.
//
// The report is not verified. A false one changes the estimated end of the job and the estimated starts of others. It
// also feeds the throughput model, so it affects which GPUs similar jobs get, and what a team's GPUs are worth under
// `fair`: the order, within quotas and limits. Time limits are unaffected, and the daemon's reservations rest on those.
// If plans use predictions (core::Rules::uses_predictions, which the daemon leaves off) and the job has no time limit,
// its expected end also affects plans, predicted reservations and backfill.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "engine/core/estimate/run_spread.h"
#include "model/job_record.h"

namespace divvy {

/// Contains one of two forms: a fraction of the work, or steps out of a total.
struct ProgressReport {
  std::optional<double> fraction;  // 0..1
  std::int64_t step = 0;
  std::int64_t steps = 0;
};

/// Two progress reports must be at least this far apart to compute a speed from them.
inline constexpr Duration kLeastMeasured = std::chrono::seconds(10);

/// Returns the job's progress after a report at `now`. Fails with a one-line message if a value is invalid, or if the
/// reported step is before the last one.
Result<Progress> AfterReport(const Progress& before, const ProgressReport& report, Time now);
/// Forgets the measured speed of a job, because its GPUs changed or it was paused. It is measured again from the next
/// report on.
void MeasureAnew(Progress& progress);

/// Returns which fraction of the job's work is done per second; nullopt if there are no two reports that are far enough
/// apart.
std::optional<double> SpeedOf(const Progress& progress);
/// Returns when a running job will finish at its current speed; nullopt if its speed is unknown.
std::optional<Time> ExpectedEnd(const JobRecord& record);
/// Returns the expected run time of a running job as an interval, computed from its progress: the rest of the work may
/// take 25 % less or 50 % more time than at the present speed. nullopt if the speed is unknown.
std::optional<core::RunSpread> SpreadByProgress(const JobRecord& record);

}  // namespace divvy
