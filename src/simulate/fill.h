// The filling experiment: jobs arrive one by one at an empty cluster and never leave; one that fits nowhere is dropped
// for good. How much of the GPU capacity is allocated once so much of it has been asked for?
//
// It is the experiment of the FGD paper (Weng et al., USENIX ATC 2023), rule by rule, with random draws of our own:
//   * The trace's jobs come in an order shuffled by the seed; then copies of jobs drawn uniformly, until the demand
//     reaches `fill` times the capacity. A longer trace is thinned to that by removing random jobs.
//   * The order of the nodes, which decides between equal scores, is shuffled once per run.
//   * Load x is what has arrived in percent of the capacity, rounded; the allocation at x is the mean over the moments
//     at that load.
// Policies may look at the trace's own distribution (typical requests, prices); `online` learns it from the arrivals.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "simulate/traces/openb.h"

namespace divvy::simulate {

/// default, online, fgd, best-fit, dot-prod, clustering, packing, random, pack, spread, sequential.
const std::vector<std::string_view>& FillPolicies();

struct FillOptions {
  std::string policy = "default";
  double fill = 1.3;  // Demand at the end, in capacities.
  std::vector<std::uint64_t> seeds;
  unsigned threads = 1;
  /// A job with GPUs that fits nowhere may have so many others moved for it. Published experiments move nobody.
  int moves_per_job = 0;
  /// Called after each run, from any thread but never from two at once.
  std::function<void()> on_run_done;
};

struct FillRun {
  std::uint64_t seed = 0;
  std::vector<double> allocation_percent;  // By load in percent, from 0; the one before where nothing arrived at it.
  std::int64_t arrived = 0;                // Jobs.
  std::int64_t refused = 0;
  std::int64_t moves = 0;
  std::int64_t saved = 0;  // Jobs that moves let start.
  double cpu_seconds = 0;  // Of one core, for placing and starting; without reading and preparing.
};

struct FillResult {
  std::string policy;
  std::vector<FillRun> runs;  // In the order of the seeds.
  std::int64_t gpus = 0;

  /// Over the runs; nothing beyond the load that was reached.
  std::optional<double> MeanAt(int load) const;
  /// Of one run from another (n - 1); 0 for a single run.
  double DeviationAt(int load) const;
};

/// Runs do not depend on each other, so neither does the answer on `threads`. Fails on an unknown policy.
Result<FillResult> RunFill(const OpenbNodes& nodes, const std::vector<OpenbJob>& jobs, const FillOptions& options);

/// The jobs in the order of their arrival, as indices into `jobs`. For tests.
std::vector<std::uint32_t> Arrivals(const std::vector<OpenbJob>& jobs, std::int64_t capacity_parts, double fill,
                                    std::uint64_t seed);

}  // namespace divvy::simulate
