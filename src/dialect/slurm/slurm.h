// Parses "#SBATCH" scripts and the options of sbatch, srun and salloc into a JobSpec.
//
// Slurm's options depend on each other: --gpus-per-task multiplies --ntasks, and --mem-per-gpu multiplies the GPUs. The
// same option may come three times, each overriding the previous one: from a script line, from SBATCH_* in the
// environment, and from the command line. So an option only checks its own value and stores it as a label "slurm.NAME".
// FinishSlurm computes the request from all labels. The labels stay, because a started job's SLURM_* variables come
// from them.
//
// Order of calls: ApplySlurmLines, ApplySbatchEnvironment, ParseOptions(SbatchOptions) for the command line,
// FinishSlurm and, once the caller's environment is captured, CompleteSlurm. ReadSlurmLines combines all but the last.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/job_options.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

/// The options that sbatch, srun and salloc share. Each call makes a new level, whose values replace those of an
/// earlier level. The closures write into `spec`. `spec` and `around` must outlive the table.
std::vector<Option> SbatchOptions(JobSpec& spec, const ParseContext& around);

/// Applies a script's "#SBATCH" lines, SBATCH_* of the environment and `words`, the command line of sbatch, if any.
/// Then calls FinishSlurm. Errors: "train.sh line 3: ...".
Status ReadSlurmLines(std::string_view text, std::string_view path, const ParseContext& around, JobSpec& spec,
                      const std::vector<std::string>* words = nullptr);

/// Adds to `explanation` the meaning of each line, mistakes with their fixes, and what does not apply here.
void ExplainSlurmLines(std::string_view text, std::string_view path, const ParseContext& around,
                       ScriptExplanation& explanation);

/// Applies only the "#SBATCH" lines of a script. FinishSlurm must follow.
Status ApplySlurmLines(std::string_view text, std::string_view path, const ParseContext& around, JobSpec& spec);
/// Applies SBATCH_TIMELIMIT, SBATCH_GRES, ... of around.environment. Errors name the variable.
Status ApplySbatchEnvironment(const ParseContext& around, JobSpec& spec);
/// Like ApplySbatchEnvironment, for salloc ("SALLOC_TIMELIMIT") and for srun outside a job ("SLURM_TIMELIMIT",
/// "SLURM_NTASKS"). Inside a job, SLURM_* describe that job, so the prefix SLURM_ has no effect.
Status ApplyCommandEnvironment(std::string_view prefix, const ParseContext& around, JobSpec& spec);

/// Computes spec.request, the default output file and the notes from the options. May be called again after more
/// options. Refuses contradictions (4 GPUs in one option, 8 in another).
Status FinishSlurm(JobSpec& spec);

/// -m arbitrary: returns the host of each task, in rank order, and no more than --ntasks. They come from the file that
/// SLURM_HOSTFILE names, or from --nodelist. Empty if neither is given, or for another distribution. `is_srun`:
/// SLURM_HOSTFILE without --nodelist is enough, as in Slurm. Refuses a file without hosts, and more than 65,536
/// entries.
Result<std::vector<std::string>> TaskHosts(const JobSpec& spec, const ParseContext& around, bool is_srun);
/// Removes the hosts behind the first --ntasks ones.
void CutTaskHosts(const JobSpec& spec, std::vector<std::string>& hosts);
/// Sets the nodes of a job outside any other, and without --ntasks its number of tasks, to those of TaskHosts, and
/// returns these. Does nothing for a heterogeneous job. Call it before FinishSlurm. Not `is_srun`: see NoteLostOrder.
Result<std::vector<std::string>> ApplyTaskHosts(const ParseContext& around, bool is_srun, JobSpec& spec);
/// Adds a note if a job asks for -m arbitrary, but its own srun will not know the order of the hosts, because no file
/// lists them. Call it before ApplyTaskHosts has changed --nodelist.
void NoteLostOrder(const ParseContext& around, JobSpec& spec);

/// Slurm's commands that divvy implements under their names.
inline constexpr std::array<std::string_view, 8> kSlurmCommands = {"sbatch", "srun",  "salloc", "scancel",
                                                                   "squeue", "sinfo", "sacct",  "scontrol"};

/// Refuses requests that are valid in Slurm but impossible in divvy (two GPU types in one option). The error says how
/// to fix the request. CheckComplete calls this, because the command line may still replace the script's options.
Status CheckSlurmPlace(const JobSpec& spec);

/// Completes a job that is submitted to a single-node server called `hostname`. Refuses a request for several nodes,
/// and --exclude of this server. Removes requested hosts and features from the request, and adds a note about hosts
/// that are not this server. Does nothing for other dialects.
Status CompleteSlurmOnOne(JobSpec& spec, std::string_view hostname);

/// Applies the words of sbatch's, srun's or salloc's command line to `spec`. Words behind ":" belong to further
/// components of a heterogeneous job (dialect/options/components.h) and override the script's options for that
/// component. Notes about options of site plugins go to `noted`, or to `spec` if `noted` is null.
Result<Parsed> ReadSlurmWords(const std::vector<Option>& options, const std::vector<std::string>& words,
                              const ParseContext& around, JobSpec& spec, JobSpec* noted = nullptr);

/// Call after spec.capture is filled and before the submission. Applies --export, removes the SLURM_* variables that
/// describe an enclosing job, and turns --exclusive into all `gpus_of_server` GPUs. Does nothing for other dialects.
/// Calling it twice is harmless.
void CompleteSlurm(JobSpec& spec, std::optional<int> gpus_of_server);

/// With --time-min and --deadline, removes a time limit that does not fit before the deadline: the job may start until
/// its deadline, and its limit is then the time left. Call at the submission.
void FitTimeLimit(JobSpec& spec, Time now);

/// One "#SBATCH" line and its words, split as Slurm does (quotes, backslash, "# comment" at the end).
struct SlurmLine {
  int number = 0;
  std::string text;  // As written.
  std::vector<std::string> words;
  std::string error;  // Not empty: an unclosed quote.
};
/// The lines that Slurm reads, and hints about lines that it ignores ("##SBATCH", lines after the first command).
struct SlurmLines {
  std::vector<SlurmLine> lines;
  struct Unread {
    int number = 0;
    std::string text;
    std::string why;
    bool is_on_purpose = false;  // "##SBATCH", "# SBATCH": the usual way to disable a line.
  };
  std::vector<Unread> unread;
};
SlurmLines FindSlurmLines(std::string_view script);
/// True for "#SBATCH hetjob": the lines below it belong to the next component.
bool BeginsComponent(const SlurmLine& line);

}  // namespace divvy::dialect
