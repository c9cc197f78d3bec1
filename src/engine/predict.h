// When a waiting job will start, from what is known: the ends of running jobs and the time limits of those ahead in
// line.
#pragma once

#include <string>

#include "engine/planner.h"

namespace divvy {

struct Prediction {
  Time start = kNever;
  std::string basis;  // On what it rests, or why there is none.
};

/// Requires: `entry` waits and is in line, or will be at its begin time. The planner has run. A promise of the plan is
/// the answer where there is one. Else the jobs ahead are placed one after the other, each on the GPUs that free first
/// for it, without backfill: later than the truth rather than earlier, if nothing is submitted that goes first.
/// Cost: O(members ahead), at most kMostSimulated of them.
Prediction Predict(const Cluster& cluster, const Policy& policy, const Planner& planner, const WaitingEntry& entry,
                   const JobClass& job_class, Time now);

/// Beyond it a prediction would mean little, and cost more than a few milliseconds.
inline constexpr std::uint64_t kMostSimulated = 200'000;

/// Where `entry` stands among those that do not wait yet because of a begin time: as if it were due.
OrderKey KeyOf(const Policy& policy, const WaitingEntry& entry, Time now);

}  // namespace divvy
