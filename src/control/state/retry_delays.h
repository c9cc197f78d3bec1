// How long jobs wait that were queued again because a node could not start them, or because they had to return what
// they had borrowed.
#pragma once

#include <map>

#include "model/job_record.h"

namespace divvy {

class RetryDelays {
 public:
  /// A node could not start the job. Returns how many in a row could not.
  int CountRefusal(JobId job) { return ++refusals_[job]; }
  /// The job has to return what it had borrowed.
  void NoteRepaid(JobId job) { repaid_[job].is_now = true; }
  void OnStarted(JobId job) { refusals_.erase(job); }
  void Forget(JobId job) {
    refusals_.erase(job);
    repaid_.erase(job);
  }
  /// How long a job waits that others could not make room for.
  Duration RoomDelay(JobId job) const;
  /// How long a job waits after it was requeued to return what it had borrowed; 0 for other jobs.
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
