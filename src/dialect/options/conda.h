// Running a job inside a conda environment without a login shell: "conda activate" is a shell function that only a
// shell set up for conda has, so the job's command or script gets a prologue that sets it up. Internal to this folder.
#pragma once

#include <string>

#include "model/job.h"

namespace divvy::dialect {

/// Wraps spec.command or spec.script so that it runs inside `environment` (a name or a path), in place of an earlier
/// wrapping. A job whose environment cannot be activated ends with code 1 and a line that says why, before its own
/// first command. Scripts of any interpreter work: what is no shell script runs from a wrapper in bash.
void RunInsideConda(const std::string& environment, JobSpec& spec);

}  // namespace divvy::dialect
