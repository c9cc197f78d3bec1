// The filling experiment: jobs arrive one by one at an empty cluster and never end. A job that fits nowhere is dropped.
// How much of the GPU capacity is allocated at a given total demand?
//
// It reproduces the experiment of the FGD paper (Weng et al., USENIX ATC 2023), but with its own random draws:
//   * The trace's jobs arrive in an order shuffled by the seed, followed by copies of uniformly drawn jobs, until the
//     demand is `fill` times the capacity. A longer trace is first thinned to that by removing random jobs.
//   * The order of the nodes breaks ties between equal scores. It is shuffled once per run.
//   * Load x is the demand so far in percent of the capacity, rounded. The allocation at x is the mean over the moments
//     at that load.
// Policies may use the trace's own distribution (typical requests, prices). `online` learns it from the arrivals.
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

/// Returns the names of the placement policies that can be compared: default, online, fgd, best-fit, dot-prod,
/// clustering, packing, random, pack, spread, sequential.
const std::vector<std::string_view>& FillPolicies();

struct FillOptions {
  std::string policy = "default";
  double fill = 1.3;  // Demand at the end, relative to the capacity.
  std::vector<std::uint64_t> seeds;
  unsigned threads = 1;
  /// If a job with GPUs fits nowhere, up to this many others may be moved for it. Published experiments move none.
  int moves_per_job = 0;
  /// Optional. Called after each run, from any thread, but never from two threads at the same time.
  std::function<void()> on_run_done;
};

struct FillRun {
  std::uint64_t seed = 0;
  std::vector<double> allocation_percent;  // By load in percent, from 0. A load without arrivals repeats the value
                                           // before it.
  std::int64_t arrived = 0;                // Number of jobs.
  std::int64_t refused = 0;
  std::int64_t moves = 0;
  std::int64_t saved = 0;  // Jobs that started because of moves.
  double cpu_seconds = 0;  // CPU time of one core, for placing and starting. Excludes reading and preparing.
};

struct FillResult {
  std::string policy;
  std::vector<FillRun> runs;  // In the order of the seeds.
  std::int64_t gpus = 0;

  /// Returns the mean over all runs at this load in percent; nullopt if no run reached it.
  std::optional<double> MeanAt(int load) const;
  /// Returns the standard deviation between the runs (divisor n - 1) at this load; 0 for a single run.
  double DeviationAt(int load) const;
};

/// Fills the cluster with jobs until it is full, several times with each policy. The result does not depend on the
/// number of threads. Fails on an unknown policy.
Result<FillResult> RunFill(const OpenbNodes& nodes, const std::vector<OpenbJob>& jobs, const FillOptions& options);

/// Returns the order in which jobs arrive in one run, as indices into `jobs`. For tests.
std::vector<std::uint32_t> Arrivals(const std::vector<OpenbJob>& jobs, std::int64_t capacity_parts, double fill,
                                    std::uint64_t seed);

}  // namespace divvy::simulate
