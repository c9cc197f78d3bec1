// Gavel's continuous experiment (Narayanan et al., OSDI 2020, section 7.3): jobs come at random at a cluster of three
// types of GPU; every six minutes it is decided anew who runs where. What is the mean completion time of a thousand
// jobs once the cluster is in its steady state? The jobs, their speeds, rounds and rules of progress are the published
// simulator's (gavel_jobs.h), so that figures compare:
//   * A round ends when the last of its jobs has done six minutes' worth of whole steps; who finishes earlier leaves
//   its
//     GPU idle until then. Of two that share a GPU both count as finished when the later one is.
//   * Jobs that arrive during a round wait for its end. Moving a job costs nothing, unless `move_s` says otherwise.
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
  kAgnostic,        // Equal shares of time, whatever the type: the published "max_min_fairness".
  kMaxMin,          // Max-min fair by effective throughput: "max_min_fairness_perf".
  kProgress,        // rates/seats.h, each job alone on its GPUs.
  kProgressPacked,  // The same, two jobs may share GPUs.
};

/// "agnostic", "max-min", "progress", "progress-packed"; nothing for another name.
std::optional<GavelPolicy> ParseGavelPolicy(std::string_view name);

struct GavelOptions {
  std::string throughputs;  // Path of simulation_throughputs.json[.gz].
  GavelPolicy policy = GavelPolicy::kProgress;
  double jobs_per_hour = 5.6;
  int v100 = 36, p100 = 36, k80 = 36;
  bool multi_gpu = false;  // Jobs of 2, 4 and 8 GPUs among them.
  std::size_t measured_from = 4000, measured_to = 5000;
  std::uint32_t seed = 0;
  double round_s = 360;
  double move_s = 0;  // Of each start and move, time without progress.
};

struct GavelResult {
  std::vector<double> jct_h;  // Of the measured jobs, by arrival.
  double mean_jct_h = 0, median_jct_h = 0, p99_jct_h = 0, worst_jct_h = 0;
  double busy = 0;             // Part of all GPU time.
  double moves_per_round = 0;  // Starts and moves, by job that runs in it.
  std::int64_t rounds = 0;
};

/// Fails when the throughputs cannot be read, lack a kind of job, or the cluster cannot keep up.
Result<GavelResult> RunGavel(const GavelOptions& options);
Result<GavelResult> RunGavel(const GavelOptions& options, const GavelThroughputs& throughputs);

}  // namespace divvy::research
