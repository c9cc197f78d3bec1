// Shockwave's experiment (Zheng et al., NSDI 2023, section 8): 32 equal GPUs, a trace of jobs that each run on a fixed
// number of them and get faster as their batch size grows; every two minutes it is decided anew who runs. When is all
// done, and how much longer does a job take than on its own share?
//
// The rules of progress are those of the published simulator (uw-mad-dash/shockwave), so that figures compare job for
// job: a round ends when the last of its jobs has done its whole steps; a job that did not run in the round before
// loses `restart_s` (but not in its last round); a batch size changes at the end of the first round in which the job
// runs after the epoch for it has come, and whole epochs count as done; a job that has run 1.5 times its profile ends.
// rho = completion time / (profiled time alone * max(1, jobs of the trace / GPUs)); a job is unfairly treated when it
// is above 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "research/gavel_throughputs.h"
#include "research/shockwave_jobs.h"

namespace divvy::research {

enum class ShockwavePolicy {
  kMaxMin,         // Equal shares of GPU time: the published "max_min_fairness". Knows nothing of the work left.
  kSlack,          // rates/slack.h. Knows the steps left and the present speed, not the batch sizes to come.
  kSlackProfiled,  // The same with the profile of all epochs to come, which the published Shockwave starts from as
                   // well.
};

/// "max-min", "slack", "slack-profiled"; nothing for another name.
std::optional<ShockwavePolicy> ParseShockwavePolicy(std::string_view name);

struct ShockwaveOptions {
  std::string trace;        // Path of <n>jobs_*.trace.tsv[.gz].
  std::string throughputs;  // Path of tacc_throughputs.json[.gz].
  ShockwavePolicy policy = ShockwavePolicy::kSlack;
  int gpus = 32;
  double round_s = 120;
  double restart_s = 20;
  double rho = 1.5;  // What the slack policies aim for (rates::SlackOptions).
};

struct ShockwaveResult {
  struct Job {
    double jct_s = 0, alone_s = 0, rho = 0;
  };
  std::vector<Job> jobs;  // As in the trace.
  double makespan_s = 0, mean_jct_s = 0;
  double worst_rho = 0, unfair = 0;  // The latter: part of the jobs.
  double busy = 0;                   // Part of all GPU time, without restarts.
  std::int64_t rounds = 0, restarts = 0;
};

/// Fails when a file cannot be read, the throughputs lack a kind of job, or a job needs more GPUs than there are.
Result<ShockwaveResult> RunShockwave(const ShockwaveOptions& options);
Result<ShockwaveResult> RunShockwave(const ShockwaveOptions& options, const std::vector<ShockwaveJob>& jobs,
                                     const GavelThroughputs& throughputs);

}  // namespace divvy::research
