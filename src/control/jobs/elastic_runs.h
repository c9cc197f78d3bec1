// Running elastic jobs: GPUs that the engine adds or asks back, and the jobs' answers.
//
// A job holds `gpus`. It may be asked for some of them, `gpus_asked_back`, which stay its own until it calls `divvy
// checkpoint`. Its file lists the rest, which it may use. All of this is in the record, so a restart loses nothing.
#pragma once

#include "control/state/budget_tracker.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class ElasticRuns {
 public:
  struct Checkpointed {
    GpuSet gpus;               // The GPUs to use from now on.
    bool has_changed = false;  // They differ from what the job was last told.
  };

  ElasticRuns(Scheduler& scheduler, JobTable& jobs, EffectRecorder& effects, NodeTable& nodes, BudgetTracker& budgets)
      : scheduler_(scheduler), jobs_(jobs), effects_(effects), nodes_(nodes), budgets_(budgets) {}

  void Resize(const Resizing& resizing, Time now);
  /// Handles the report of an elastic job that it can change its GPUs now (see Controller::Checkpoint). Requires: the
  /// job runs.
  Checkpointed Checkpoint(JobRecord& record, Time now);

 private:
  Scheduler& scheduler_;
  JobTable& jobs_;
  EffectRecorder& effects_;
  NodeTable& nodes_;
  BudgetTracker& budgets_;
};

}  // namespace divvy
