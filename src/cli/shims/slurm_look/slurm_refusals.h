// Translates divvy's refusals of a job: Slurm's wording, which programs look for, and options that Slurm's commands
// have.
#pragma once

#include <string>

#include "model/job.h"

namespace divvy::cli::slurm {

/// Returns "User's group not permitted to use this partition: pool big is for ..." and similar. Other texts keep their
/// wording, but options in them become Slurm's: "--mem=23G" for divvy's "--memory 23G". `asked`: the refused job. GPUs
/// and CPUs are counted as that job counts them (--gpus in total, --gres on each node).
std::string InSlurmsWords(const std::string& refusal, const JobSpec& asked = {});
/// Replaces only divvy's options in `text` with Slurm's. For divvy's own commands when they describe a job that was
/// submitted with Slurm's commands.
std::string WithSlurmsOptions(std::string text, const JobSpec& asked);

}  // namespace divvy::cli::slurm
