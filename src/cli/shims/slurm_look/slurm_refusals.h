// Where divvy refuses a job: Slurm's words, which programs look for, and repairs in options that Slurm's commands have.
#pragma once

#include <string>

#include "model/job.h"

namespace divvy::cli::slurm {

/// "User's group not permitted to use this partition: pool big is for ..."; any other text as it is, but for the
/// options that it names: "--mem=23G" for divvy's "--memory 23G". `asked`: the job that was refused; GPUs and CPUs are
/// counted as it counts them (--gpus in all, --gres on each node).
std::string InSlurmsWords(const std::string& refusal, const JobSpec& asked = {});

}  // namespace divvy::cli::slurm
