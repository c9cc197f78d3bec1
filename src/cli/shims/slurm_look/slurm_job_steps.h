// The steps of a job as Slurm's listings show them. Pure functions of messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/shims/slurm_look/slurm_view.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// One step, as the columns of a job describe it.
struct JobStep {
  std::string id;            // "batch", "0".
  wire::JobView job;         // The job, with the step's name, state, times, exit, tasks and GPUs.
  bool is_measured = false;  // The job's measured usage is the step's usage.
  std::int64_t tasks = 1;    // May exceed job.request.tasks, which is at most the number of cores.
};

/// Returns the batch step of the job: it is on the first node of the job, and has all the job's resources there.
JobStep BatchStepOf(const wire::JobView& job);

/// The steps of a job that has started, in Slurm's order: the batch step, then by number. `steps`: those that the job
/// started. A foreground job has no batch step: the job of srun is its own step 0, and salloc has only the steps
/// started in it. Waiting steps are left out.
std::vector<JobStep> JobStepsOf(const wire::JobDetail& job, const std::vector<wire::StepView>& steps);

/// scontrol show step.
std::string ShowStep(const JobStep& step, const Scene& scene, bool is_one_line);

}  // namespace divvy::cli::slurm
