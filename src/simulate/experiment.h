// Several replays of one trace: which policies, on which clusters, with which draws; run side by side on all cores.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "simulate/engine_decider.h"
#include "simulate/house_rules.h"
#include "simulate/report.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

struct PolicyChoice {
  std::string label;                   // As it was written.
  std::optional<HouseRule> reference;  // Set: the reference rule instead of divvy's own decisions.
  EngineRule engine;
};

/// "small-first", "fifo", "fair", "shortest", each also with what is known of run times: "shortest:true"; and the
/// reference rules "fifo-strict", "fifo-skip", "sjf-strict", ... `defaults`: for what is not said.
Result<PolicyChoice> ParsePolicy(std::string_view text, const EngineRule& defaults);
/// All names, for people.
std::string PolicyNames();
std::optional<Predicting> PredictingFromName(std::string_view name);

/// "+8 H100": the same cluster with 8 more GPUs, in nodes as large as it has; "+2x8:H100": two nodes; "-8": less,
/// whole nodes from the end. Without a model: that of the first node.
Result<TraceCluster> WhatIf(const TraceCluster& cluster, std::string_view change);

/// The same trace with every submission moved by up to half an hour either way: how much of a result is chance?
Workload Shaken(const Workload& workload, std::uint64_t seed);

struct PlannedRun {
  std::string label;
  PolicyChoice policy;
  TraceCluster cluster;
  const Workload* workload = nullptr;
};

/// The finished runs in the order of the plan; the first error ends it. `on_progress` gets 0..1 of all of them
/// together, from several threads, one at a time.
Result<std::vector<PolicyRun>> RunAll(const std::vector<PlannedRun>& plan, unsigned threads,
                                      const std::function<void(double)>& on_progress = {});

}  // namespace divvy::simulate
