// What sbatch, srun and salloc share on the way from words to a submitted job.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/jobs/foreground.h"
#include "dialect/options/job_options.h"
#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::cli::slurm {

/// The words and the script of a batch job, read in Slurm's order: lines, SBATCH_*, command line.
struct BatchRequest {
  JobSpec spec;
  bool waits = false;
  bool is_parsable = false;
  bool is_test = false;
  bool is_quiet = false;
};
/// `read_stdin` gives the script when no file is named.
Result<BatchRequest> ReadBatchRequest(const std::vector<std::string>& words, const dialect::Surroundings& around,
                                      const std::function<Result<std::string>()>& read_stdin);

/// Takes "slurm.client.NAME" out of the labels; tells whether it was there.
bool TakeClientFlag(JobSpec& spec, std::string_view name);

/// Captures this process's environment into `spec` and applies --export and --exclusive (asking the daemon how many
/// GPUs there are, if it must).
Status Complete(JobSpec& spec);

/// --test-only of a complete spec: what would become of it, and nothing is submitted. Gives the exit code.
int TestOnly(std::string_view program, const JobSpec& spec);

/// How `program` speaks of a job in the foreground. `refusal`: before why it could not be submitted as `asked`.
Voice SlurmVoice(std::string_view program, std::string_view refusal, const JobSpec& asked);

/// This program as it was called ("/opt/bin/srun", or "/usr/bin/divvy srun"), for a job that is to run it again.
std::vector<std::string> SelfWords(std::string_view name, const std::vector<std::string>& words);

/// All options but those named.
std::vector<dialect::Option> Without(std::vector<dialect::Option> options, const std::vector<std::string_view>& names);

}  // namespace divvy::cli::slurm
