// Slurm's options that have no effect in divvy, and unknown options that a site's Slurm plugins may define. They are
// accepted and mentioned in a note, and are never an error.
#pragma once

#include <string_view>
#include <vector>

#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect::slurm {

/// Slurm's message if --hint is combined with an option that also sets how tasks use cores.
inline constexpr std::string_view kHintExcludes =
    "Following options are mutually exclusive with --hint: --ntasks-per-core, --threads-per-core, -B and --cpu-bind "
    "(other then --cpu-bind=verbose). Ignoring --hint.";

/// Appends the Slurm options that have no effect in divvy to `options`. The closures write into `spec`.
void AddNotedOptions(JobSpec& spec, std::vector<Option>& options);

/// Accepts unknown long options, such as those of a site's plugins, and adds a note to `spec` for each. Still refuses
/// names that begin with a word for a job's resources (--gpu-count). `words_are_options`: true for "#SBATCH" lines,
/// where a word after the option is its value. On a command line that word may be the script.
TakeUnknown TakeSiteOptions(JobSpec& spec, bool words_are_options);

/// Returns why Slurm's option --NAME has no effect in divvy; "" if no reason is needed, or if there is no such option.
std::string_view WhyNoted(std::string_view name);

}  // namespace divvy::dialect::slurm
