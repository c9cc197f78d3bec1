// scontrol show job, as text.
#pragma once

#include <string>

#include "cli/shims/slurm_view.h"
#include "wire/messages.h"

namespace divvy::cli::slurm {

/// "JobId=17 JobName=train\n   UserId=..." and an empty line; all on one line with `is_one_line`.
std::string ShowJob(const wire::JobDetail& job, const Scene& scene, bool is_one_line);

}  // namespace divvy::cli::slurm
