// The administrator's limits on submitted and changed jobs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/limits.h"
#include "engine/scheduler/scheduler.h"
#include "model/job.h"

namespace divvy {

/// "3600 s", or "none" for 0.
std::string SecondsText(Duration limit);

/// Fails if there are too many dependencies for one job, or for an array of this many elements. `elements`: of those
/// that wait on their own (aftercorr); 0: a single job.
Status CheckDependencyCount(const std::vector<Dependency>& dependencies, std::uint64_t elements);

class SubmissionLimits {
 public:
  SubmissionLimits(const Scheduler& scheduler, const Limits& limits) : scheduler_(scheduler), limits_(limits) {}

  /// Fails with kLimitExceeded if the queue has no room for this many more jobs.
  Status CheckRoom(std::uint64_t jobs, const Caller& caller) const;
  /// Fails with kPermissionDenied if the caller may not change a job's priority from `before` to `after`.
  Status CheckPriority(int before, int after, const Caller& caller) const;
  /// `limit`: 0 for none. Fails with kLimitExceeded.
  Status CheckTimeLimit(Duration limit) const;
  Duration default_time_limit() const { return limits_.default_time_limit; }

 private:
  const Scheduler& scheduler_;
  Limits limits_;
};

}  // namespace divvy
