// Slurm's options that mean nothing on one server, or belong to a site's plugins: read, named in a note, never fatal.
#pragma once

#include <vector>

#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect::slurm {

/// Appends them to `options`. The closures write into `spec`.
void AddNotedOptions(JobSpec& spec, std::vector<Option>& options);

/// Long options that are none of Slurm's, as plugins of a site add them: each is named in a note to `spec`. Refused all
/// the same is one whose name begins with a word for what a job is given (--gpu-count). `words_are_options`: on a
/// "#SBATCH" line, where a word behind it can only be its value; on a command line it may be the script.
TakeUnknown TakeSiteOptions(JobSpec& spec, bool words_are_options);

/// Why --NAME does nothing here; "" when it needs no word, or is no such option.
std::string_view WhyNoted(std::string_view name);

}  // namespace divvy::dialect::slurm
