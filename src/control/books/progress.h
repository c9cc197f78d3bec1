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

/// Two reports closer together than this give no speed.
inline constexpr Duration kLeastMeasured = std::chrono::seconds(10);

/// Returns `before` updated by a report at `now`. Fails, with a one-line message, for invalid values and for a step
/// back.
Result<Progress> AfterReport(const Progress& before, const ProgressReport& report, Time now);
/// Call after its GPUs changed or it was paused: its speed is measured from the next report on.
void MeasureAnew(Progress& progress);

/// Fraction of the work per second; nothing unless two reports are far enough apart.
std::optional<double> SpeedOf(const Progress& progress);
/// When a running job will finish at its current speed.
std::optional<Time> ExpectedEnd(const JobRecord& record);
/// The same as an interval for the whole run: the rest may take 25 % less or 50 % more time.
std::optional<core::RunSpread> SpreadByProgress(const JobRecord& record);

}  // namespace divvy
