// scontrol show job, as text.
#pragma once

#include <string>

#include "cli/shims/slurm_look/slurm_job_steps.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

struct ShowStyle {
  bool is_one_line = false;    // -o
  bool has_details = false;    // -d: which GPUs of which node.
  std::size_t components = 1;  // The whole job has this many.
};
/// "JobId=17 JobName=train\n   UserId=..." and an empty line; all on one line with is_one_line.
std::string ShowJob(const wire::JobDetail& job, const Scene& scene, const ShowStyle& style);

/// scontrol show step. The step of an srun outside any job also has the job's options for GPUs.
std::string ShowStepOf(const wire::JobDetail& job, const JobStep& step, const Scene& scene, const ShowStyle& style);

}  // namespace divvy::cli::slurm
