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
/// Returns the text of `scontrol show job`: "JobId=17 JobName=train\n   UserId=...", followed by an empty line. With
/// is_one_line, all fields are on one line.
std::string ShowJob(const wire::JobDetail& job, const Scene& scene, const ShowStyle& style);

/// Returns the text of `scontrol show step`. The step of an srun that was called outside a job also has the GPU options
/// of its job.
std::string ShowStepOf(const wire::JobDetail& job, const JobStep& step, const Scene& scene, const ShowStyle& style);

}  // namespace divvy::cli::slurm
