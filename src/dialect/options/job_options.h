// The options of divvy's own submission commands and of "# DIVVY" script lines, as a table that fills a JobSpec.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dialect/options/options.h"
#include "dialect/options/parse_context.h"
#include "model/job.h"

namespace divvy::dialect {

/// A job's priority is between -kMostPriority and kMostPriority.
inline constexpr int kMostPriority = 1'000'000;

/// --gpus, --time, --array, --param ... The closures write into `spec`. `spec` and `around` must outlive the table.
/// Each call makes a new level: repeatable options (--param, --dependency, --after) add up within one level and replace
/// the values of an earlier level (a script's lines).
///
/// VH_GPUS=N in --env means --gpus N unless --gpus is given. VH_GPUS in the caller's environment is ignored (for
/// executions see dialect/valohai/valohai.h).
std::vector<Option> JobOptions(JobSpec& spec, const ParseContext& around);

/// Parses the value of --dependency: "afterok:12:13,afterany:14", "after:12+5", "singleton", "12" (afterok), "@". With
/// "?" between the parts, it is enough that one of them is met. Used by every dialect.
Status ParseDependencies(std::string_view text, const ParseContext& around, JobSpec& spec);
std::string FormatDependency(const Dependency& dependency);

/// Parses "lr=1e-3,1e-4", "seed=0:9" or "seed=0:10:2" (start:stop[:step], stop included).
Status ParseParameter(std::string_view text, JobSpec& spec);
/// Parses a CSV with a header line: one element per row.
Status ParseParameterFile(std::string_view csv, std::string_view path, JobSpec& spec);

/// ElementCount: the number of elements of the sweep and array together; fails for more than 4,000,000. ElementAt: the
/// values of the element number `ordinal` (from 0). The array index changes fastest.
Result<std::uint64_t> ElementCount(const JobSpec& spec);
struct Element {
  std::uint32_t index = 0;  // The value of DIVVY_ARRAY_INDEX.
  std::map<std::string, std::string> parameters;
};
Element ElementAt(const JobSpec& spec, std::uint64_t ordinal);
/// Replaces every {name} in `text` by the value of the parameter with this name. Other braces and ${name} stay.
std::string FillParameters(std::string_view text, const std::map<std::string, std::string>& parameters);
/// Fills --name-template with the element's parameters; nullopt without a template, or if the result is not a valid
/// name.
std::optional<std::string> ElementName(const JobSpec& spec, std::uint64_t ordinal);

/// Checks rules over all options: exactly one of command and script, begin after now, array and foreground together,
/// ... The message names the option to change.
Status CheckComplete(const JobSpec& spec);

/// The requests in a job specification, one phrase per field: "2 GPUs (h100)", "1 h 30 min", ... Summarise joins the
/// first phrases; divvy explain shows all.
struct Readings {
  std::vector<std::string> request;  // Determines where and when it runs.
  std::vector<std::string> others;   // Files, signals, labels.
};
Readings ReadBack(const JobSpec& spec);

/// One line that shows how a spec was parsed: "2 GPUs (h100), 1 h 30 min, 20 GiB each, after job 12".
std::string Summarise(const JobSpec& spec);

/// A call of sbatch: every script is Slurm's, whether or not it has #SBATCH lines. `words`, the command line, override
/// those lines; #DIVVY lines come last.
struct SbatchCall {
  const std::vector<std::string>& words;
  std::string_view name;  // The job's name, unless an option gives it.
};

/// Detects the dialect of a script's comment lines (#SBATCH, # GFLOW, # DIVVY) and applies them to `spec`, together
/// with its script, name and dialect. Apply the words of a command line afterwards, so that they win. Errors name the
/// line: "train.sh line 3: --gres: ...". If `sbatch` is set, the script is read as sbatch reads it (see SbatchCall).
Status ReadScript(std::string_view text, std::string_view path, const ParseContext& around, JobSpec& spec,
                  const SbatchCall* sbatch = nullptr);

/// The output of `divvy explain SCRIPT`: the requests line by line, mistakes with their fixes, and what does not apply
/// here. Never fails: errors are part of the text. `had_errors` determines the exit code.
struct ScriptExplanation {
  std::string text;
  bool had_errors = false;
};
ScriptExplanation ExplainScript(std::string_view text, std::string_view path, const ParseContext& around);

}  // namespace divvy::dialect
