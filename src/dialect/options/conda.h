// Runs a job in a conda environment without a login shell. "conda activate" is a shell function that exists only in a
// shell set up for conda. So the job's command or script gets a prologue that sets it up. Internal to this folder.
#pragma once

#include <string>

#include "model/job.h"

namespace divvy::dialect {

/// Wraps spec.command or spec.script so that it runs in `environment` (a name or a path). Replaces an earlier wrapping.
/// If the environment cannot be activated, the job ends with code 1 and a message before its first command. Works for
/// any interpreter: a bash wrapper runs scripts that are not shell scripts.
void RunInsideConda(const std::string& environment, JobSpec& spec);

}  // namespace divvy::dialect
