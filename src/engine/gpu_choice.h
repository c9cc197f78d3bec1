// Which of the GPUs that are free a job takes: by its placement, and by what it wants of the way between them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/gpu_sets.h"
#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy {

struct GpuChoice {
  PlacementStrategy placement = PlacementStrategy::kSequential;
  std::uint64_t draw = 0;  // For kRandom.
  TopologyNeed topology = TopologyNeed::kAny;
  bool requires_topology = false;  // Else a preference: the best there is where none satisfies it.
  /// The node's. May be null only where placement is kSequential, kRandom or kPack and topology is kAny.
  const GpuTopology* node = nullptr;

  bool is_strict() const { return requires_topology && topology != TopologyNeed::kAny; }
};

/// `count` of `candidates`, or nothing where there are too few, or none that satisfy what is required.
///
/// A wish for topology, or kBest, takes the set that GpuTopology::Pick finds. Else: kSequential and kPack the lowest
/// indices; kRandom by draw, where the same draw prefers the same GPUs whatever else is free, so that a reservation
/// does not wander; kSpread one of each NUMA node in turn, from the node with most of them on.
std::optional<GpuSet> PickGpus(GpuSet candidates, int count, const GpuChoice& choice);

/// Whether `gpus` satisfy what is required.
bool Suits(GpuSet gpus, const GpuChoice& choice);

/// The most of `gpus` that together satisfy the topology, required or not.
int MostTogether(GpuSet gpus, const GpuChoice& choice);

/// Sets of `count` GPUs that satisfy what `choice` wants of topology, grown from each of `order` in turn by the first
/// of `order` that suit: result[i] are places in `order`, ascending. Both topologies are met pair by pair, and on real
/// nodes GPUs that are joined are joined to the same others, so none is missed.
std::vector<std::vector<std::size_t>> GrownSets(std::span<const int> order, int count, const GpuChoice& choice);

/// The order in which kRandom, or else the index, prefers GPUs: lower first.
std::uint64_t PreferenceRank(int gpu, const GpuChoice& choice);

}  // namespace divvy
