// How long jobs wait that were queued again because a node could not start them, or because they had to return what
// they had borrowed.
#pragma once

#include <map>

#include "model/job_record.h"

namespace divvy {

class RetryDelays {
 public:
  /// Call when a node could not start the job, or could not free its GPUs. Returns how many times in a row it failed.
  int CountRefusal(JobId job) { return ++refusals_[job]; }
  /// Call when the job is requeued to return GPU memory that it had borrowed from another tenant.
  void NoteRepaid(JobId job) { repaid_[job].is_now = true; }
  void OnStarted(JobId job) { refusals_.erase(job); }
  void Forget(JobId job) {
    refusals_.erase(job);
    repaid_.erase(job);
  }
  /// Returns how long the job waits before its next start if a node could not free the GPUs for it.
  Duration RoomDelay(JobId job) const;
  /// Returns how long a job waits after it was requeued to return borrowed GPU memory; 0 for other jobs.
  Duration BorrowDelay(const JobRecord& record, Time now);

 private:
  /// How often, without a long run in between.
  struct Repaid {
    int times = 0;
    bool is_now = false;
  };
  std::map<JobId, int> refusals_;
  std::map<JobId, Repaid> repaid_;
};

}  // namespace divvy
