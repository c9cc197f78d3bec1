// Components of a heterogeneous job after its first: the options behind ":" on a command line, or below "#SBATCH
// hetjob". The same tables parse each component into a separate spec. Only its resource request counts, because name,
// output and times belong to the whole job.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// The largest number of components that one job may have.
inline constexpr std::size_t kMostComponents = 64;

/// Returns the specification of component `component` (counted from 1) as parsed so far. Its request is empty if the
/// job does not have the component yet.
JobSpec SpecOfComponent(const JobSpec& job, std::size_t component);
/// Stores the component in `job` under its number, or appends it. Requires: number <= the present number of components.
/// The time limit of the job becomes the longest of its components. Fails for too many components and for an elastic
/// one.
Status TakeComponent(JobSpec component, std::size_t number, JobSpec& job);

/// Parses options, then ":" and the options of the next component, and so on, then the command. `options` is the option
/// table for the first component; `options_of` makes the table for each later one. `finish` is called with each later
/// component, to check and complete it.
template <typename OptionsOf, typename Finish>
Result<Parsed> ReadComponents(const std::vector<Option>& options, const std::vector<std::string>& words,
                              const ParseRules& rules, JobSpec& job, OptionsOf options_of, Finish finish) {
  DIVVY_TRY(Parsed parsed, ParseOptions(options, words, rules));
  if (!parsed.positional.empty() && parsed.positional.front() == ":" && job == JobSpec()) {
    return InvalidArgument(
        "there are no options before the first ':'; give that component's resources (--gpus, --cpus, --nodes, ...), or "
        "omit the ':'");
  }
  for (std::size_t number = 1; !parsed.positional.empty() && parsed.positional.front() == ":"; ++number) {
    JobSpec component = SpecOfComponent(job, number);
    // Keep the words behind "--".
    const bool saw_dashes = parsed.saw_dashes;
    std::vector<std::string> after = std::move(parsed.after_dashes);
    const std::vector<std::string> rest(parsed.positional.begin() + 1, parsed.positional.end());
    DIVVY_TRY(parsed, ParseOptions(options_of(component), rest, rules));
    if (saw_dashes) {
      parsed.saw_dashes = true;
      parsed.after_dashes.insert(parsed.after_dashes.end(), after.begin(), after.end());
    }
    DIVVY_CHECK(finish(component));
    DIVVY_CHECK(TakeComponent(std::move(component), number, job));
  }
  return parsed;
}

/// Checks that the components are consistent with each other and with the rest of the job.
Status CheckComponents(const JobSpec& spec);

}  // namespace divvy::dialect
