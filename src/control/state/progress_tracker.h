// Reported progress (control/books/progress.h): recorded, persisted periodically, and passed to the scheduler as
// expected ends.
#pragma once

#include <map>

#include "base/result.h"
#include "control/books/progress.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class ProgressTracker {
 public:
  ProgressTracker(Scheduler& scheduler, const JobTable& jobs, EffectRecorder& effects)
      : scheduler_(scheduler), jobs_(jobs), effects_(effects) {}

  /// Records a progress report of a running job and returns its progress. Fails if a value is invalid (AfterReport).
  Result<Progress> Report(JobRecord& record, const ProgressReport& report, Time now);
  /// Writes progress that has not been stored for some seconds to the store.
  void Keep(Time now);
  Time next_keep() const { return next_keep_; }
  /// Returns the reported progress that is not stored yet.
  Batch Unkept() const;

 private:
  /// Jobs that reported progress recently.
  struct KeptProgress {
    Time again = kNoTime;  // When its row may be written again.
    bool is_stale = false;
  };

  void ExpectEndOf(const JobRecord& record);

  Scheduler& scheduler_;
  const JobTable& jobs_;
  EffectRecorder& effects_;
  std::map<JobId, KeptProgress> kept_progress_;
  Time next_keep_ = kNever;
};

}  // namespace divvy
