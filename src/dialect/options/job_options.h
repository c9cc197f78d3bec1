// The options of divvy's own submission, and of "# DIVVY" script lines, as a table that fills a JobSpec.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// What a text cannot know by itself: the caller's surroundings, given by the command line.
struct Surroundings {
  Time now = kNoTime;
  Duration utc_offset{0};
  std::string directory;                 // The caller's working directory.
  std::vector<std::string> environment;  // NAME=value.
  std::string home;                      // $HOME.
  std::string user;
  std::string hostname;
  /// Reads a file that a text names (a CSV of parameters, a script), bounded in size.
  std::function<Result<std::string>(const std::string& path)> read_file;
  /// "@", "@~1" -> the caller's last jobs. Empty: such names are refused.
  std::function<Result<JobId>(std::string_view shorthand)> resolve_job;
};

/// A job's priority goes from minus this to this.
inline constexpr int kMostPriority = 1'000'000;

/// --gpus, --time, --array, --param ... The table's closures write into `spec`, which must outlive it, as must
/// `around`. Each call makes a new level: what may be given several times (--param, --dependency, --after) adds up
/// within one level and replaces what an earlier level (a script's lines) gave.
///
/// VH_GPUS=N in --env means --gpus N where --gpus is not given; a VH_GPUS that merely was in the caller's environment
/// means nothing (dialect/valohai/valohai.h reads that of an execution).
std::vector<Option> JobOptions(JobSpec& spec, const Surroundings& around);

/// --dependency's value: "afterok:12:13,afterany:14", "after:12+5", "singleton", "12" (afterok), "@"; "?" between
/// parts makes one enough. Shared by every dialect.
Status ParseDependencies(std::string_view text, const Surroundings& around, JobSpec& spec);
std::string FormatDependency(const Dependency& dependency);

/// --topology's value: "any", "numa", "nvlink", the last two with ":required" behind them or without.
Status ParseTopology(std::string_view text, Request& request);

/// "lr=1e-3,1e-4" or "seed=0:9" or "seed=0:10:2" (start:stop[:step], stop included).
Status ParseParameter(std::string_view text, JobSpec& spec);
/// A CSV text with a header line: one element a row.
Status ParseParameterFile(std::string_view csv, std::string_view path, JobSpec& spec);

/// How many elements the sweep and the array make together, and the values of the one with ordinal `ordinal` (from 0).
/// The array index changes fastest. Refuses more than 4,000,000.
Result<std::uint64_t> ElementCount(const JobSpec& spec);
struct Element {
  std::uint32_t index = 0;  // What DIVVY_ARRAY_INDEX says.
  std::map<std::string, std::string> parameters;
};
Element ElementAt(const JobSpec& spec, std::uint64_t ordinal);
/// `text` with every {name} of a parameter replaced; other braces, and ${name}, stay as they are.
std::string FillParameters(std::string_view text, const std::map<std::string, std::string>& parameters);
/// What --name-template makes of the element's parameters; nothing where there is none, or it makes no name of them.
std::optional<std::string> ElementName(const JobSpec& spec, std::uint64_t ordinal);

/// Checks what only shows once all options are in: exactly one of command and script, begin after now, array and
/// foreground together, ... The message names the option to change.
Status CheckComplete(const JobSpec& spec);

/// Before the submission, after spec.capture is filled: keeps of the captured environment what --export named. Does
/// nothing without --export, nor to a spec of Slurm's (CompleteSlurm), and no harm when called twice.
void CompleteCapture(JobSpec& spec);
/// --export was given.
bool NamesExports(const JobSpec& spec);

/// What a spec asks for, one phrase a field: "2 GPUs (h100)", "1 h 30 min", ... Summarise joins the first ones; explain
/// shows them all.
struct Readings {
  std::vector<std::string> request;  // What decides where and when it runs.
  std::vector<std::string> others;   // Files, signals, labels.
};
Readings ReadBack(const JobSpec& spec);

/// "2 GPUs (h100), 1 h 30 min, 20 GiB each, after job 12": how a spec was read, in one line.
std::string Summarise(const JobSpec& spec);

/// A script's text: which dialect its comment lines speak (#SBATCH, # GFLOW, # DIVVY), and those lines applied to
/// `spec` (its script, name and dialect set). The words of a later command line are applied after, so they win. Errors
/// name the line: "train.sh line 3: --gres: ...".
Status ReadScript(std::string_view text, std::string_view path, const Surroundings& around, JobSpec& spec);

/// What `divvy explain SCRIPT` prints: what the script asks for, line by line, its mistakes with the repair, and what
/// does not apply here. Never fails: errors are part of the text. `had_errors` tells the exit code.
struct ScriptExplanation {
  std::string text;
  bool had_errors = false;
};
ScriptExplanation ExplainScript(std::string_view text, std::string_view path, const Surroundings& around);

}  // namespace divvy::dialect
