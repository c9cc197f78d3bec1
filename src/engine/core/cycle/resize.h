// A job of one node that runs on more GPUs, or on fewer, from now on.
#pragma once

#include <optional>
#include <vector>

#include "engine/core/place/placing.h"
#include "engine/core/state/cluster.h"

namespace divvy::core {

/// Job `id` has `gpus` from now on, and was told to give `asked` of them back. Its start, its end, its place in the
/// queue, its team and its caps stay. Requires: it is one task; those of `gpus` that are not its own are free; `asked`
/// are some of them, but not all.
void Resize(Cluster& cluster, JobId id, GpuSet gpus, GpuSet asked, Time now);

/// Whether `piece` can be taken now without delaying what is held, and which holds move for that.
std::optional<std::vector<Shift>> ShiftsFor(Cluster::State& state, const Ask& ask, const Piece& piece, Length length,
                                            TeamIndex team, UserIndex user, Time now);

/// All that the job has; what it was told to give back is part of it.
GpuSet GpusOf(const Run& run);
GpuSet AskedOf(const Run& run);

struct Taste {
  placement::ModelSet models = placement::kAnyModel;
  TopologyNeed topology = TopologyNeed::kAny;
  bool requires_topology = false;
};
/// The GPU that goes best with those of job `id`: one that is free until the job ends, whatever is held for others, and
/// that its teams may have; empty if there is none. What is held there for others has moved.
GpuSet OneMore(Cluster& cluster, JobId id, const Taste& taste, Time now);

}  // namespace divvy::core
