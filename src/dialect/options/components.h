// Components of a heterogeneous job beyond its first: what stands behind ":" on a command line, or below "#SBATCH
// hetjob". The options of each are read by the same tables, into a spec of their own; only what they ask of machines
// counts, for name, output and times are those of the whole job.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// More components than one job may have.
inline constexpr std::size_t kMostComponents = 64;

/// What is known of this component of the job, from 1; of one that there is not yet: nothing.
JobSpec SpecOfComponent(const JobSpec& job, std::size_t component);
/// Puts it back, or adds it. Requires: no component between the last and it is missing. The longest time limit is the
/// job's. Fails for too many components and for an elastic one.
Status TakeComponent(JobSpec component, std::size_t number, JobSpec& job);

/// Options, then ":" and the options of the next component, and so on, then the command. `options` are those of the
/// first, `options_of` makes those of another.
template <typename OptionsOf, typename Finish>
Result<Parsed> ReadComponents(const std::vector<Option>& options, const std::vector<std::string>& words,
                              const ParseRules& rules, JobSpec& job, OptionsOf options_of, Finish finish) {
  DIVVY_TRY(Parsed parsed, ParseOptions(options, words, rules));
  if (!parsed.positional.empty() && parsed.positional.front() == ":" && job == JobSpec()) {
    return InvalidArgument(
        "nothing stands before the first ':'; say what that component asks for (--gpus, --cpus, --nodes, ...), or "
        "leave "
        "the ':' out");
  }
  for (std::size_t number = 1; !parsed.positional.empty() && parsed.positional.front() == ":"; ++number) {
    JobSpec component = SpecOfComponent(job, number);
    // The words behind "--" stay there.
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

/// That they go together, and with the rest of the job.
Status CheckComponents(const JobSpec& spec);

}  // namespace divvy::dialect
