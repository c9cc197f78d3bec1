// Changes the number of GPUs of a running single-node job.
#pragma once

#include <optional>
#include <vector>

#include "engine/core/place/placer.h"
#include "engine/core/state/cluster.h"

namespace divvy::core {

/// Sets the GPUs of job `id` to `gpus`, of which it was told to release `asked`. Its start, end, queue position, team
/// and caps stay. It takes `more_memory_mib` of host memory in addition. Requires: it is one task; GPUs in `gpus` that
/// are not its own are free; `asked` is a subset of `gpus`, all of them only if it is being parked; the memory is free.
void Resize(Cluster& cluster, JobId id, GpuSet gpus, GpuSet asked, Time now, std::int32_t more_memory_mib = 0);

/// Returns which reserved capacity must be exchanged for other GPUs of the same node, so that `placed` can be taken now
/// without delaying any reservation. Empty if none must; std::nullopt if `placed` would delay one anyway.
std::optional<std::vector<Shift>> ShiftsFor(ClusterState& state, const ResourceRequest& request,
                                            const TaskPlacement& placed, Length length, TeamIndex team, UserIndex user,
                                            Time now);

/// All GPUs of the job, including those that it was told to release.
GpuSet GpusOf(const Run& run);
GpuSet RequestedOf(const Run& run);

struct Taste {
  placement::ModelSet models = placement::kAnyModel;
  TopologyNeed topology = TopologyNeed::kAny;
  bool requires_topology = false;
};
/// Returns the GPU that best complements those of job `id`, or an empty set. The GPU is free until the job ends,
/// respecting all reserved capacity, and its teams have room for it. Reserved capacity of others there has been moved
/// already.
GpuSet OneMore(Cluster& cluster, JobId id, const Taste& taste, Time now);

}  // namespace divvy::core
