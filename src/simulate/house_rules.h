// Plain reference scheduling, to measure others against: one queue for each team that has nodes of its own and one for
// the rest, an order, and "consolidate" placement, as in the evaluation of Helios (Hu et al., SC'21, section 4.2).
//
//   Order: fifo by submission; sjf by true run time, shortest first; gtf by true run time x GPUs, smallest first. Ties
//   go to the lower JobIndex. Strict: a pass stops at the first job that does not fit. Skip: it goes on to the next.
//   Placement: up to a node's GPUs, on the node with the fewest free GPUs that fits; more, on as many wholly free nodes
//   as it fills, and what is left over on the fullest other node that fits. Equal nodes: the first.
//
// Nobody is preempted, true run times are known, and a share of a GPU counts as a whole one.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "simulate/replay.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

enum class HouseOrder { kFifo, kShortest, kSmallestGpuTime };

struct HouseRule {
  HouseOrder order = HouseOrder::kFifo;
  bool skips = false;
};

/// "fifo", "sjf", "gtf", and each with "-skip".
const std::vector<std::string_view>& HouseRuleNames();
std::optional<HouseRule> HouseRuleFromName(std::string_view name);

/// Fails where nodes of one queue differ in their GPUs. A job that its queue's nodes can never hold is never started.
Result<std::unique_ptr<Decider>> MakeHouseRules(const TraceCluster& cluster, HouseRule rule);

}  // namespace divvy::simulate
