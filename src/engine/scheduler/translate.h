// Translates the controller's values into those of the core: requests into resource requests, places, units and
// policies. Nothing here makes decisions. Nodes are translated in node_classifier.h, groups in group_caps.h.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/state/cluster.h"
#include "engine/policy.h"
#include "engine/pool_row.h"
#include "engine/scheduler/facts.h"
#include "engine/scheduler/scheduler_facts.h"

namespace divvy {

/// Returns `request`, with `gpus` GPUs, in the form that the core of the engine uses: with one task or, for a job on
/// several nodes, one task per node or per task of the job. CPUs and memory are rounded up to the core's units.
core::ResourceRequest ResourceRequestOf(const Request& request, PlacementStrategy placement, int gpus);
/// Returns what the job holds on a node where `tasks` of its tasks run. `parts`: for a heterogeneous job, what each
/// component has there.
NodeResources PlaceOf(const Request& request, NodeIndex node, GpuSet gpus, int tasks,
                      std::vector<ComponentAllocation> parts = {});
/// Groups task placements by node, in order of first appearance. `resources`: the request that was placed.
std::vector<NodeResources> PlacesOf(const Request& request, const core::ResourceRequest& resources,
                                    const std::vector<core::TaskPlacement>& placements);
/// For a heterogeneous job, splits what it holds on each node into one place per component. The places of other jobs
/// are returned unchanged.
std::vector<NodeResources> PartPlaces(const Request& request, const std::vector<NodeResources>& places);
/// Reconstructs the request of a running job from its places (see PartPlaces): exactly what it holds. Consecutive equal
/// places become one group of tasks.
core::ResourceRequest RequestOfPlaces(const Request& request, const std::vector<NodeResources>& places);

/// Returns the GPUs of a place, or the memory slices of its MIG instance, in the form that the core of the engine uses.
core::GpuPlace PlaceIn(const NodeResources& place);

/// Returns the alternative of the group that accepts GPUs of these classes, or the first if none does.
std::uint8_t AlternativeOf(const core::TaskGroup& group, const std::vector<std::uint8_t>& node_classes);

std::int32_t CpuMilli(int cpus);
std::int32_t MebibytesUp(Bytes bytes);
std::int32_t MebibytesDown(Bytes bytes);

core::Rules RulesOf(const Policy& policy);
/// Returns the queue rules of a pool, such as its queue policy and tier, in the form that the core of the engine uses.
core::PoolRules RulesOf(const Policy& policy, const PoolRow& pool);

}  // namespace divvy
