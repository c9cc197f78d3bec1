// Shared parts of sbatch, srun and salloc: from the words to a submitted job.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "cli/jobs/foreground.h"
#include "dialect/options/job_options.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::cli::slurm {

/// The options and the script of a batch job, applied in Slurm's order: script lines, SBATCH_*, command line.
struct BatchRequest {
  JobSpec spec;
  bool waits = false;
  bool is_parsable = false;
  bool is_test = false;
  bool is_quiet = false;
  int verbosity = 0;
};
/// Reads the command line of sbatch. Calls `read_stdin` for the script if no file is named.
Result<BatchRequest> ReadBatchRequest(const std::vector<std::string>& words, const dialect::ParseContext& around,
                                      const std::function<Result<std::string>()>& read_stdin);

/// Removes the label "slurm.client.NAME", which stores an option that only the command itself needs (such as --wait).
/// Returns true if the label was set.
bool TakeClientFlag(JobSpec& spec, std::string_view name);

/// Removes the number of times that -v was given from the labels and returns it; without -v the value of `variable`
/// (SBATCH_DEBUG) in this process's environment.
int TakeVerbosity(JobSpec& spec, const char* variable);
/// With -vv, prints to stderr how the options of `program` were read.
void PrintReadOptions(std::string_view program, const JobSpec& spec, int verbosity);

/// Captures this process's environment into `spec` and applies --export and --exclusive. For --exclusive it asks the
/// daemon for the number of GPUs.
Status Complete(JobSpec& spec);

/// --test-only: reports what would happen to a complete spec, without submitting it. Returns the exit code.
int TestOnly(std::string_view program, const JobSpec& spec);

/// Returns the wording of messages of `program` (srun or salloc) for a foreground job. `refusal` is the prefix of the
/// error if the job `asked` could not be submitted. With `verbosity` 1 the job's nodes are printed when the job begins;
/// with 2 the parsed options are printed too.
Voice SlurmVoice(std::string_view program, std::string_view refusal, const JobSpec& asked, int verbosity = 0);

/// Returns the command line with which a job runs this program again as the tool `name` with the arguments `words`:
/// "/opt/bin/srun WORDS...", or "/usr/bin/divvy srun WORDS...".
std::vector<std::string> SelfWords(std::string_view name, const std::vector<std::string>& words);

/// -I, --immediate[=SECONDS]: how long the job or step may wait.
dialect::Option Immediate(std::optional<Duration>& immediate);

/// Returns `options` without those in `names`.
std::vector<dialect::Option> Without(std::vector<dialect::Option> options, const std::vector<std::string_view>& names);

}  // namespace divvy::cli::slurm
