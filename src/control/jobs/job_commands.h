// Commands of users on existing jobs: see Controller. Changes are in JobUpdates.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/jobs/job_access.h"
#include "control/jobs/job_lifecycle.h"
#include "control/jobs/job_updates.h"
#include "control/jobs/scheduler_feed.h"
#include "control/jobs/time_sharer.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"

namespace divvy {

class JobCommands {
 public:
  JobCommands(JobTable& jobs, EffectRecorder& effects, const NodeTable& nodes, SchedulerFeed& feed,
              JobLifecycle& lifecycle, JobAccess& access, JobUpdates& updates, const TimeSharer& time_sharer)
      : jobs_(jobs),
        effects_(effects),
        nodes_(nodes),
        feed_(feed),
        lifecycle_(lifecycle),
        access_(access),
        updates_(updates),
        time_sharer_(time_sharer) {}

  Result<std::string> Cancel(JobId id, int signal, Duration grace, const std::string& reason, const Caller& caller,
                             Time now);
  Result<std::string> Hold(JobId id, const Caller& caller, Time now);
  Result<std::string> Release(JobId id, Time at, const Caller& caller, Time now);
  Result<std::string> Requeue(JobId id, RequeueAs as, const Caller& caller, Time now);
  Result<std::string> Pause(JobId id, const Caller& caller, Time now) { return SetPaused(id, true, caller, now); }
  Result<std::string> Resume(JobId id, const Caller& caller, Time now) { return SetPaused(id, false, caller, now); }
  Result<std::string> Signal(JobId id, int signal, SignalReach reach, const Caller& caller);
  Result<std::string> SetGroupLimit(const std::string& group, int limit, const Caller& caller, Time now);

 private:
  /// The waiting elements with records of their own, if the array has no other waiting elements.
  std::vector<JobId> WaitingElementsOf(const JobRecord& record) const;
  Result<std::string> SetPaused(JobId id, bool is_paused, const Caller& caller, Time now);

  JobTable& jobs_;
  EffectRecorder& effects_;
  const NodeTable& nodes_;
  SchedulerFeed& feed_;
  JobLifecycle& lifecycle_;
  JobAccess& access_;
  JobUpdates& updates_;
  const TimeSharer& time_sharer_;
};

}  // namespace divvy
