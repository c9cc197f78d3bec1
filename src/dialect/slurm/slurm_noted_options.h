// Slurm's options without effect here, or of a site's plugins: accepted, mentioned in a note, never an error.
#pragma once

#include <string_view>
#include <vector>

#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect::slurm {

/// Slurm's words about --hint beside an option that says the same in detail.
inline constexpr std::string_view kHintExcludes =
    "Following options are mutually exclusive with --hint: --ntasks-per-core, --threads-per-core, -B and --cpu-bind "
    "(other then --cpu-bind=verbose). Ignoring --hint.";

/// Appends these options to `options`. The closures write into `spec`.
void AddNotedOptions(JobSpec& spec, std::vector<Option>& options);

/// Accepts unknown long options, such as those of a site's plugins, and adds a note to `spec` for each. Still refuses
/// names that begin with a word for a job's resources (--gpu-count). `words_are_options`: true for "#SBATCH" lines,
/// where a word after the option is its value. On a command line that word may be the script.
TakeUnknown TakeSiteOptions(JobSpec& spec, bool words_are_options);

/// Why --NAME has no effect here; "" if no reason is needed, or if there is no such option.
std::string_view WhyNoted(std::string_view name);

}  // namespace divvy::dialect::slurm
