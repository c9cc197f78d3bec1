// Several replays of one trace with different policies, clusters and random draws, run in parallel on all cores.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "simulate/baseline_policies.h"
#include "simulate/engine_decider.h"
#include "simulate/growth_decider.h"
#include "simulate/report.h"
#include "simulate/time_sharing_decider.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

struct PolicyChoice {
  std::string label;                   // The text that the user wrote.
  std::optional<HouseRule> reference;  // If set, this baseline policy is used instead of the production scheduler.
  std::optional<TimeSharingRule> time_sharing;  // The same.
  EngineRule engine;
};

/// The settings that a policy's name does not contain.
struct PolicyDefaults {
  EngineRule engine;
  TimeSharingRule time_sharing;
};

/// Parses the name of a policy to simulate: "small-first", "fifo", "fair" or "shortest", each optionally followed by
/// what the scheduler knows of run times: "shortest:true". Or a baseline policy: "fifo-strict", "fifo-skip",
/// "sjf-strict", ... Or "time-sharing", optionally with its contract, the share of time that a job may lose:
/// "time-sharing:10%", "time-sharing:none".
Result<PolicyChoice> ParsePolicy(std::string_view text, const PolicyDefaults& defaults);
/// Parses the share of time that a job may lose by time-sharing: "20%", or "none" (no value).
Result<std::optional<double>> ParseContract(std::string_view text);
/// Returns the names of all policies as a text for users.
std::string PolicyNames();
std::optional<Predicting> PredictingFromName(std::string_view name);

/// Returns the cluster with a change. "+8 H100": the same cluster with 8 more GPUs, in nodes of its largest size;
/// "+2x8:H100": two more nodes; "-8": removes GPUs, whole nodes from the end. Without a model: the model of the first
/// node.
Result<TraceCluster> WhatIf(const TraceCluster& cluster, std::string_view change);

/// Returns the same trace with every submission moved randomly by up to half an hour either way. A comparison of the
/// results shows how much of them is chance.
Workload Shaken(const Workload& workload, std::uint64_t seed);

struct PlannedRun {
  std::string label;
  PolicyChoice policy;
  TraceCluster cluster;
  const Workload* workload = nullptr;
  /// Nodes also come from these providers. `policy` is then one of the production scheduler's; its rule is used in
  /// place of GrowthSetup::engine.
  std::optional<GrowthSetup> growth = std::nullopt;
};

/// Simulates all planned runs on this many threads, and returns them in the order of the plan. Fails with the first
/// error. `on_progress` gets the progress of all runs together, from 0 to 1. It is called from several threads, one at
/// a time.
Result<std::vector<PolicyRun>> RunAll(const std::vector<PlannedRun>& plan, unsigned threads,
                                      const std::function<void(double)>& on_progress = {});

}  // namespace divvy::simulate
