// The administrator's limits on submitted and changed jobs.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/limits.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

/// Returns a time limit as text for messages: "3600 s", or "none" for 0.
std::string SecondsText(Duration limit);

class SubmissionLimits {
 public:
  SubmissionLimits(const Scheduler& scheduler, const Limits& limits) : scheduler_(scheduler), limits_(limits) {}

  /// Fails with kLimitExceeded if the queue has no room for this many more jobs.
  Status CheckRoom(std::uint64_t jobs, const Caller& caller) const;
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
