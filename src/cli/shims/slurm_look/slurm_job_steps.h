// The steps of a job as Slurm's listings have them. Pure functions of messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/shims/slurm_look/slurm_view.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// One step: what the columns of a job say of it.
struct JobStep {
  std::string id;            // "batch", "0".
  wire::JobView job;         // With the step's name, state, times, exit, tasks and GPUs in place of the job's.
  bool is_measured = false;  // What the job used is what it used.
  std::int64_t tasks = 1;    // job.request.tasks are no more than its cores.
};

/// On the first machine of the job, with what the job has there.
JobStep BatchStepOf(const wire::JobView& job);

/// Those of a job that has started, in Slurm's order: the batch step first, then by number. `steps`: those that it
/// started itself. A foreground job has no batch step: srun's is step 0 by itself, salloc has what was started in it.
/// Steps that wait are none yet.
std::vector<JobStep> JobStepsOf(const wire::JobDetail& job, const std::vector<wire::StepView>& steps);

/// scontrol show step.
std::string ShowStep(const JobStep& step, const Scene& scene, bool is_one_line);

}  // namespace divvy::cli::slurm
