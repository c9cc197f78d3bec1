// Runs that the store does not know, because it was lost, emptied or restored from a backup. They are known from their
// run records, and from the run journal next to the store. Missing knowledge in the store never ends such a run and
// never starts a job again.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/jobs/job_access.h"
#include "control/jobs/job_lifecycle.h"
#include "control/jobs/run_tracker.h"
#include "control/jobs/scheduler_feed.h"
#include "control/state/effect_recorder.h"
#include "control/state/found_runs.h"
#include "control/state/gang_launches.h"
#include "control/state/gpu_monitor.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "control/state/pool_rules.h"
#include "control/state/run_predictions.h"
#include "control/state/team_rules.h"
#include "engine/scheduler/scheduler.h"
#include "model/run_description.h"

namespace divvy {

class RunAdoption {
 public:
  enum class Found {
    kTaken,    // The store knows the job: the run is taken over with its attempt.
    kOver,     // The store knows that this run has ended or was replaced: it is stopped.
    kUnknown,  // The store was lost, emptied or restored: the run is left alone, and its GPUs get no new work.
  };

  RunAdoption(Scheduler& scheduler, JobTable& jobs, EffectRecorder& effects, NodeTable& nodes, GpuMonitor& gpus,
              FoundRuns& found, GangLaunches& gangs, RunPredictions& predictions, const TeamRules& teams,
              const PoolRules& pools, SchedulerFeed& feed, JobLifecycle& lifecycle, RunTracker& runs,
              const JobAccess& access)
      : scheduler_(scheduler),
        jobs_(jobs),
        effects_(effects),
        nodes_(nodes),
        gpus_(gpus),
        found_(found),
        gangs_(gangs),
        predictions_(predictions),
        teams_(teams),
        pools_(pools),
        feed_(feed),
        lifecycle_(lifecycle),
        runs_(runs),
        access_(access) {}

  // See Controller.
  Found OnFound(RunDescription run, Time now, const FindOutcome& outcome);
  void Replay(const RunDescription& run, Time now);
  bool MayReplay(JobId job, std::uint32_t attempt) const;
  void ReserveIds(std::uint64_t next_id);
  Result<std::string> Adopt(JobId id, const Caller& caller, Time now);
  Result<std::string> EndFound(JobId id, const Caller& caller);

 private:
  JobRecord& Revive(JobRecord ended, const FindOutcome& outcome);
  JobRecord* SameJob(const JobRecord& run);
  bool HasRoomFor(const RunDescription& run, const JobRecord* known) const;
  void HoldBack(JobRecord& record, Time now);
  void KeepEnd(JobRecord& record, const RunDescription& run, Time now);
  void TakeUp(JobRecord& record, const RunDescription& run, const std::string& why, Time now);

  Scheduler& scheduler_;
  JobTable& jobs_;
  EffectRecorder& effects_;
  NodeTable& nodes_;
  GpuMonitor& gpus_;
  FoundRuns& found_;
  GangLaunches& gangs_;
  RunPredictions& predictions_;
  const TeamRules& teams_;
  const PoolRules& pools_;
  SchedulerFeed& feed_;
  JobLifecycle& lifecycle_;
  RunTracker& runs_;
  const JobAccess& access_;
};

}  // namespace divvy
