// Plain baseline scheduling for comparison, as in the evaluation of Helios (Hu et al., SC'21, section 4.2). It has one
// queue for each team with its own nodes and one for the rest, a queue order, and "consolidate" placement.
//
//   Order: fifo by submission; sjf by true run time, shortest first; gtf by true run time x GPUs, smallest first. Ties
//   go to the lower JobIndex. Strict: a pass stops at the first job that does not fit. Skip: it continues with the
//   next.
//   Placement: a job of up to a node's GPUs goes on the node with the fewest free GPUs that fits. A larger job fills
//   completely free nodes. Its rest goes on the fullest other node that fits. Equal nodes: the first.
//
// There is no preemption, true run times are known, and a fraction of a GPU counts as a whole GPU.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "simulate/replay.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

enum class BaselineOrder { kFifo, kShortest, kSmallestGpuTime };

struct HouseRule {
  BaselineOrder order = BaselineOrder::kFifo;
  bool skips = false;
};

/// Returns the names of the baseline scheduling policies: "fifo", "sjf", "gtf", and each of these with "-skip".
const std::vector<std::string_view>& HouseRuleNames();
std::optional<HouseRule> HouseRuleFromName(std::string_view name);

/// Makes a scheduler that follows a baseline policy. Fails if the nodes of one queue have different GPU counts. A job
/// that fits on no node of its queue is never started.
Result<std::unique_ptr<Decider>> MakeHouseRules(const TraceCluster& cluster, HouseRule rule);

}  // namespace divvy::simulate
