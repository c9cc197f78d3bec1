// Gavel's continuous experiment (Narayanan et al., OSDI 2020, section 7.3): jobs arrive at random at a cluster with
// three types of GPU, and every six minutes the policy decides again which jobs run where. The result is the mean
// completion time of a thousand jobs once the cluster has reached its steady state. The jobs, their speeds, the rounds
// and the rules of progress are those of the published simulator (gavel_jobs.h), so that the figures are comparable:
//   * A round ends when the last of its jobs has done six minutes' worth of whole steps. A job that is done earlier
//     leaves its GPU idle until then. Two jobs that share a GPU both finish when the later one does.
//   * Jobs that arrive during a round wait for its end. Moving a job costs nothing, unless `move_s` is set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "research/gavel_throughputs.h"

namespace divvy::research {

enum class GavelPolicy {
  kAgnostic,        // Equal shares of time, regardless of the GPU type: the published "max_min_fairness".
  kMaxMin,          // Max-min fair by effective throughput: "max_min_fairness_perf".
  kProgress,        // The seat search of rates/seats.h; each job has its GPUs to itself.
  kProgressPacked,  // The same, but two jobs may share GPUs.
};

/// Accepts "agnostic", "max-min", "progress" and "progress-packed"; returns nullopt for any other name.
std::optional<GavelPolicy> ParseGavelPolicy(std::string_view name);

struct GavelOptions {
  std::string throughputs;  // Path of simulation_throughputs.json[.gz].
  GavelPolicy policy = GavelPolicy::kProgress;
  double jobs_per_hour = 5.6;
  int v100 = 36, p100 = 36, k80 = 36;
  bool multi_gpu = false;  // The workload includes jobs of 2, 4 and 8 GPUs.
  std::size_t measured_from = 4000, measured_to = 5000;
  std::uint32_t seed = 0;
  double round_s = 360;
  double move_s = 0;  // Seconds without progress at each start and each move.
};

struct GavelResult {
  std::vector<double> jct_h;  // Completion times of the measured jobs, by arrival.
  double mean_jct_h = 0, median_jct_h = 0, p99_jct_h = 0, worst_jct_h = 0;
  double busy = 0;             // Fraction of all GPU time in which GPUs ran jobs.
  double moves_per_round = 0;  // Starts and moves per job and round in which that job ran.
  std::int64_t rounds = 0;
};

/// Errors: the throughputs cannot be read or lack a kind of job, no GPU type has room for the widest gang, or the
/// cluster cannot keep up with the arrivals.
Result<GavelResult> RunGavel(const GavelOptions& options);
Result<GavelResult> RunGavel(const GavelOptions& options, const GavelThroughputs& throughputs);

}  // namespace divvy::research
