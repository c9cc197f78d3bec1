// Changes the number of GPUs of a running single-node job.
#pragma once

#include <optional>
#include <vector>

#include "engine/core/place/placer.h"
#include "engine/core/state/cluster.h"

namespace divvy::core {

/// Sets the GPUs of the running job `id` to `gpus`, of which it was told to release `asked`. It also gets
/// `more_memory_mib` of host memory. All else about the job stays the same. Requires: the job is one task; GPUs in
/// `gpus` that it does not have yet are free; `asked` is a subset of `gpus`, and equals it only if the job is being
/// parked; the memory is free.
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
/// Returns one more GPU for the running job `id`, the one best connected to those it has; an empty set if there is
/// none. The GPU is free until the job ends, and the limits of the job's teams allow it. If the GPU was reserved for
/// another job, that reservation was moved to another GPU.
GpuSet OneMore(Cluster& cluster, JobId id, const Taste& taste, Time now);

}  // namespace divvy::core
