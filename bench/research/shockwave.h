// Shockwave's experiment (Zheng et al., NSDI 2023, section 8): 32 equal GPUs and a trace of jobs. Each job runs on a
// fixed number of GPUs and gets faster as its batch size grows. Every two minutes the policy decides again which jobs
// run. The results are the time at which all jobs are done, and how much longer a job takes than on its own share.
//
// The rules of progress are those of the published simulator (uw-mad-dash/shockwave), so that figures are comparable
// job by job:
//   * A round ends when the last of its jobs has done its whole steps.
//   * A job that did not run in the previous round loses `restart_s`, but not if it runs for less than a full round.
//   * A batch size changes at the end of the first round in which the job runs after the epoch for it has come; then
//     whole epochs count as done.
//   * A job that has run for 1.5 times its profiled time ends.
// rho = completion time / (profiled time alone * max(1, jobs of the trace / GPUs)). A job with rho > 1 is treated
// unfairly.
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
  kMaxMin,         // Equal shares of GPU time: the published "max_min_fairness". Ignores the remaining work.
  kSlack,          // rates/slack.h. Uses the remaining steps and the present speed, not later batch sizes.
  kSlackProfiled,  // The same with the profile of all later epochs, which the published Shockwave also starts from.
};

/// Accepts "max-min", "slack" and "slack-profiled"; returns nullopt for any other name.
std::optional<ShockwavePolicy> ParseShockwavePolicy(std::string_view name);

struct ShockwaveOptions {
  std::string trace;        // Path of a <n>jobs_*.trace.tsv[.gz] file.
  std::string throughputs;  // Path of the tacc_throughputs.json[.gz] file.
  ShockwavePolicy policy = ShockwavePolicy::kSlack;
  int gpus = 32;
  double round_s = 120;
  double restart_s = 20;
  double rho = 1.5;  // The target of the slack policies (rates::SlackOptions).
};

struct ShockwaveResult {
  struct Job {
    double jct_s = 0, alone_s = 0, rho = 0;
  };
  std::vector<Job> jobs;  // In the order of the trace.
  double makespan_s = 0, mean_jct_s = 0;
  double worst_rho = 0, unfair = 0;  // `unfair` is the fraction of jobs with rho > 1.
  double busy = 0;                   // Fraction of all GPU time in which jobs trained, without restarts.
  std::int64_t rounds = 0, restarts = 0;
};

/// Errors: a file cannot be read, the throughputs lack a kind of job, or a job needs more GPUs than there are.
Result<ShockwaveResult> RunShockwave(const ShockwaveOptions& options);
Result<ShockwaveResult> RunShockwave(const ShockwaveOptions& options, const std::vector<ShockwaveJob>& jobs,
                                     const GavelThroughputs& throughputs);

}  // namespace divvy::research
