// How far a job says it is, and what follows from that: how fast it is, and when it will have done all of its work.
//
// It is the job's word. A false one moves the estimates of its own end and of others' starts. It also feeds the speed
// book, so it moves which GPUs its like gets, and what a team's GPUs are worth under `fair`: the order, within quotas
// and limits. Time limits stand, and the daemon's promises rest on them. Where plans use predictions
// (core::Rules::uses_predictions, which the daemon leaves off) and the job has no time limit, the end that it expects
// moves plans, promises by prediction and backfill as well.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "engine/core/estimate/estimate.h"
#include "model/job_record.h"

namespace divvy {

/// One of two: a part of the whole, or steps out of all.
struct ProgressReport {
  std::optional<double> fraction;  // 0..1
  std::int64_t step = 0;
  std::int64_t steps = 0;
};

/// Two reports closer together than this say nothing of how fast it is.
inline constexpr Duration kLeastMeasured = std::chrono::seconds(10);

/// `before` with what is reported `now`. Refused, with one line: what is no part of the whole, and a step back.
Result<Progress> AfterReport(const Progress& before, const ProgressReport& report, Time now);
/// Its GPUs have changed, or it stood still: its speed is measured from its next report on.
void MeasureAnew(Progress& progress);

/// Part of the whole in a second; nothing where two reports far enough apart do not say.
std::optional<double> SpeedOf(const Progress& progress);
/// When it will have done all, if it goes on as it did. Of a job that runs.
std::optional<Time> ExpectedEnd(const JobRecord& record);
/// The same as an interval, for its whole run: what is left may take a quarter less, or half as long again.
std::optional<core::RunSpread> SpreadByProgress(const JobRecord& record);

}  // namespace divvy
