// Jobs with a deadline (JobSpec::end_by): when a waiting job can no longer meet it, and the time limit of a run that
// must end by it.
#pragma once

#include <optional>
#include <set>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "model/job_record.h"

namespace divvy {

/// Checks that a job with this limit (0: none) can start at `begin`, or now if that is later, and end by `end_by`
/// (kNoTime: no deadline). Fails with kInvalidArgument and a suggestion.
Status CheckDeadline(Time end_by, Duration time_limit, Time begin, Time now);
/// Shortens the limit of a run to the job's deadline. Returns whether this changes its limit by more than a moment.
/// Requires: the job has just started, or is about to.
bool CutToDeadline(JobRecord& record);
/// Restores the job's own time limit after a run that CutToDeadline has shortened, because the next run may be longer.
void RestoreLimit(JobRecord& record);

class DeadlineWatch {
 public:
  /// Watches a waiting job with a deadline. Call it when the job begins to wait, or its deadline or time limit has
  /// changed.
  void Watch(const JobRecord& record);
  /// Returns a job that can no longer start in time to meet its deadline, and forgets it; nullopt if there is none. The
  /// job may have started, ended or changed meanwhile.
  std::optional<JobId> PopLate(Time now);
  /// Returns when PopLate will have a job: just after the latest possible start of the next one.
  Time next_late() const {
    return latest_starts_.empty() ? kNever : AddSaturating(latest_starts_.begin()->first, Duration(1));
  }

 private:
  std::set<std::pair<Time, JobId>> latest_starts_;  // May contain jobs that have started or ended.
};

}  // namespace divvy
