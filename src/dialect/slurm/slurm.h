// "#SBATCH" scripts and the options of sbatch, srun and salloc, read into a JobSpec.
//
// Slurm's options depend on each other (--gpus-per-task multiplies --ntasks, --mem-per-gpu multiplies the GPUs), and
// the same option may come three times: from a script line, from SBATCH_* in the environment, from the command line,
// each winning over the one before. So an option only checks its own value and keeps it as a label "slurm.NAME" of the
// spec; FinishSlurm works the request out of all labels. The labels stay: a started job's SLURM_* variables come from
// them.
//
// Order of calls: ApplySlurmLines, ApplySbatchEnvironment, ParseOptions(SbatchOptions) for the command line,
// FinishSlurm, and, once the caller's environment is captured, CompleteSlurm. ReadSlurmLines is the first two and
// FinishSlurm in one.
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

/// The options that sbatch, srun and salloc share. Each call makes a new level: what is set through it replaces what an
/// earlier level set. The closures write into `spec`, which must outlive the table, as must `around`.
std::vector<Option> SbatchOptions(JobSpec& spec, const Surroundings& around);

/// The "#SBATCH" lines of a script, then SBATCH_* of the environment, then FinishSlurm. Errors: "train.sh line 3: ...".
Status ReadSlurmLines(std::string_view text, std::string_view path, const Surroundings& around, JobSpec& spec);

/// Adds to `explanation` what each line asks for, its mistakes with the repair, and what does not apply here.
void ExplainSlurmLines(std::string_view text, std::string_view path, const Surroundings& around,
                       ScriptExplanation& explanation);

/// Only the lines. FinishSlurm must follow.
Status ApplySlurmLines(std::string_view text, std::string_view path, const Surroundings& around, JobSpec& spec);
/// SBATCH_TIMELIMIT, SBATCH_GRES, ... of around.environment. Errors name the variable.
Status ApplySbatchEnvironment(const Surroundings& around, JobSpec& spec);
/// The same of salloc ("SALLOC_TIMELIMIT") and of a srun outside a job ("SLURM_TIMELIMIT", "SLURM_NTASKS"). Inside a
/// job, SLURM_* describe that job: then `prefix` SLURM_ reads nothing.
Status ApplyCommandEnvironment(std::string_view prefix, const Surroundings& around, JobSpec& spec);

/// Works out spec.request, the default output file and the notes from the options. May be called again after more
/// options. Refuses what contradicts itself (4 GPUs in one option, 8 in another).
Status FinishSlurm(JobSpec& spec);

/// Slurm's commands that divvy is as well, when it is called by their names.
inline constexpr std::array<std::string_view, 8> kSlurmCommands = {"sbatch", "srun",  "salloc", "scancel",
                                                                   "squeue", "sinfo", "sacct",  "scontrol"};

/// Refuses, in one sentence with the repair, what was read in full and cannot be given: two types of GPU in one
/// option. CheckComplete asks; the command line may still have replaced what the script said.
Status CheckSlurmPlace(const JobSpec& spec);

/// At the submission to a server that has no other machines: refuses several nodes in one sentence with the repair, and
/// itself being excluded; takes hosts and features out, which this one server is taken for, and notes hosts that it is
/// not. Does nothing to a spec of another dialect.
Status CompleteSlurmOnOne(JobSpec& spec, std::string_view hostname);

/// The words of sbatch's, srun's or salloc's command line, applied to `spec`. Words behind ":" are of further
/// components of a heterogeneous job (dialect/options/components.h): what a script says of a component they say over.
/// Options of a site's plugins are named in notes to `noted`; to `spec` where it is null.
Result<Parsed> ReadSlurmWords(const std::vector<Option>& options, const std::vector<std::string>& words,
                              const Surroundings& around, JobSpec& spec, JobSpec* noted = nullptr);

/// Before the submission, after spec.capture is filled: applies --export, drops the SLURM_* of an outer job, and turns
/// --exclusive into all `gpus_of_server` GPUs. Does nothing to a spec of another dialect. Calling it twice does no
/// harm.
void CompleteSlurm(JobSpec& spec, std::optional<int> gpus_of_server);

/// One "#SBATCH" line with its words, as Slurm splits them (quotes, backslash, "# comment" at the end).
struct SlurmLine {
  int number = 0;
  std::string text;  // As written.
  std::vector<std::string> words;
  std::string error;  // Not empty: an open quote.
};
/// All that Slurm would read, and hints about those that it would not ("##SBATCH", lines after the first command).
struct SlurmLines {
  std::vector<SlurmLine> lines;
  struct Unread {
    int number = 0;
    std::string text;
    std::string why;
    bool is_on_purpose = false;  // "##SBATCH", "# SBATCH": the usual way to switch a line off.
  };
  std::vector<Unread> unread;
};
SlurmLines FindSlurmLines(std::string_view script);
/// "#SBATCH hetjob": the lines below it are of the next component.
bool BeginsComponent(const SlurmLine& line);

}  // namespace divvy::dialect
