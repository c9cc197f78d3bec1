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
// Cost: visits every placement on fitting nodes for each of the three. The first kMostStepped members ahead are placed
// one by one, the rest is summed by class.
#pragma once

#include <string>

#include "base/time.h"
#include "engine/core/estimate/run_spread.h"

namespace divvy::core {

struct Ahead;
class JobPerspective;

struct Estimate {
  Time typical = kNever;       // kNever: no known event makes it start.
  Time earliest = kNoTime;     // kNoTime: unknown.
  Time latest = kNever;        // kNever: unknown.
  bool is_guaranteed = false;  // The scheduler guarantees `latest` as long as GPUs stay in service.
  std::string basis;           // "when job 12 reaches its time limit", or why no estimate.
};

/// Estimates when the waiting job of `perspective` will start. `ahead`: the jobs before it in the queue. `spread`: the
/// distribution of run times. Requires: the next scheduling cycle does not start the job.
Estimate EstimateStart(JobPerspective& perspective, const Ahead& ahead, const SpreadOf& spread);

}  // namespace divvy::core
