// Estimates when a waiting job will start, as an interval, and explains what the estimate rests on.
//
// A job starts when three conditions are met, so the latest of them decides: its caps and limits allow it, running jobs
// leave enough resources on fitting nodes, and the jobs ahead in the queue have been served from the summed capacity of
// these nodes, without backfill. A job ahead also uses its caps and limits until its expected end. As long as a limit
// blocks it, it delays only jobs under the same limit. If no job with precedence is submitted, the estimate is late
// rather than early. If the job has a reservation, that is the answer, with two exceptions: the job is likely to start
// earlier (reservations use time limits, while jobs without one are estimated by likely ends), or a job that a limit
// blocks now will go first. This way the first of several identical jobs is not estimated to start last.
//
// There are three estimates of a job's end. Typical: its prediction, otherwise its time limit. Latest: its time limit,
// otherwise the time that one in ten such jobs exceeds. Earliest: the time that one in ten stays under, if known.
//
// Cost: visits every piece on fitting nodes for each of the three. The first kMostStepped members ahead are placed one
// by one, the rest is summed by class.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/id.h"
#include "base/time.h"
#include "model/job.h"

namespace divvy::core {

struct Ahead;
class JobPerspective;

/// The run time distribution of similar jobs: one in ten is shorter than `low`, one in ten longer than `high`
/// (engine/run_times.h).
struct RunSpread {
  Duration low{0};
  Duration high{0};
};
/// Takes a running job or a waiting entry; returns nothing if unknown.
using SpreadOf = std::function<std::optional<RunSpread>(JobId)>;

struct Estimate {
  Time typical = kNever;    // kNever: no known event makes it start.
  Time earliest = kNoTime;  // kNoTime: unknown.
  Time latest = kNever;     // kNever: unknown.
  bool is_promise = false;  // The scheduler guarantees `latest` as long as GPUs stay in service.
  std::string basis;        // "when job 12 reaches its time limit", or why no estimate.
};

/// Members ahead that are placed one by one; the rest is summed by class.
inline constexpr std::uint64_t kMostStepped = 2'000;
/// The maximum number of running jobs, and of classes, for which spreads are queried. Beyond it the interval rests on
/// time limits alone.
inline constexpr std::size_t kMostAsked = 2'000;

/// Requires: the view's job waits and will not start at once.
Estimate EstimateStart(JobPerspective& view, const Ahead& ahead, const SpreadOf& spread);

}  // namespace divvy::core
