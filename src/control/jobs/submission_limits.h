// The administrator's limits on submitted and changed jobs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/limits.h"
#include "engine/scheduler/scheduler.h"
#include "model/job.h"
#include "model/job_record.h"

namespace divvy {

/// Returns a time limit as text for messages: "3600 s", or "none" for 0.
std::string SecondsText(Duration limit);

/// Fails if there are too many dependencies for one job, or for an array of this many elements. `elements`: of those
/// that wait on their own (aftercorr); 0: a single job.
Status CheckDependencyCount(const std::vector<Dependency>& dependencies, std::uint64_t elements);

class SubmissionLimits {
 public:
  SubmissionLimits(const Scheduler& scheduler, const Limits& limits) : scheduler_(scheduler), limits_(limits) {}

  /// Fails with kLimitExceeded if the queue has no room for this many more jobs.
  Status CheckRoom(std::uint64_t jobs, const Caller& caller) const;
  /// Bytes of node lists, comments and other texts that the live jobs of one user may have together.
  static constexpr std::uint64_t kMostTextOfUser = 64 << 20;
  /// Fails with kLimitExceeded if the user's live jobs would have more than kMostTextOfUser, with `changed` (jobs of
  /// one user) instead of their present records. An array counts once more for each waiting element, because an element
  /// gets a copy when it starts. Cost: linear in `live` if `changed` has more than a few KiB.
  static Status CheckTexts(const std::map<JobId, JobRecord>& live, const std::map<JobId, JobRecord>& changed,
                           const Caller& caller);
  /// Fails with kPermissionDenied if the caller may not change a job's priority from `before` to `after`.
  Status CheckPriority(int before, int after, const Caller& caller) const;
  /// Fails with kLimitExceeded if the time limit of a job is longer than allowed. `limit`: 0 for none.
  Status CheckTimeLimit(Duration limit) const;
  Duration default_time_limit() const { return limits_.default_time_limit; }

 private:
  const Scheduler& scheduler_;
  Limits limits_;
};

}  // namespace divvy
