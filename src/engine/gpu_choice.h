// Picks GPUs for a job from the free GPUs of a node, by its placement strategy and topology requirement.
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
  bool requires_topology = false;  // False: `topology` is a preference; the best available set is taken.
  /// The node's topology. May be null only if placement is kSequential, kRandom or kPack and topology is kAny.
  const GpuTopology* node = nullptr;

  bool is_strict() const { return requires_topology && topology != TopologyNeed::kAny; }
};

/// Picks `count` of the GPUs `candidates`. Returns nullopt if there are too few, or if no set meets the required
/// topology.
///
/// With a topology, or with kBest, the set is the one that GpuTopology::Pick finds. Otherwise: kSequential and kPack
/// take the lowest indices; kRandom goes by `draw`: the same draw prefers the same GPUs whatever else is free, so that
/// a reservation does not change from cycle to cycle; kSpread takes one GPU of each NUMA node in turn, starting with
/// the NUMA node that has the most candidates.
std::optional<GpuSet> PickGpus(GpuSet candidates, int count, const GpuChoice& choice);

/// Returns true if `gpus` meet the required topology, or if none is required.
bool Suits(GpuSet gpus, const GpuChoice& choice);

/// Returns the size of the largest subset of `gpus` that satisfies the topology, whether required or preferred.
int MostInOneDomain(GpuSet gpus, const GpuChoice& choice);

/// Returns sets of `count` GPUs that meet the topology of `choice`. Each set starts from one GPU of `order` and adds
/// the first GPUs of `order` that may be used together with it. result[i] has indices into `order`, ascending. On real
/// nodes, connected GPUs have the same partners, so no set is missed.
std::vector<std::vector<std::size_t>> GrownSets(std::span<const int> order, int count, const GpuChoice& choice);

/// Returns a rank by which GPUs are preferred, lower first: computed from `draw` for kRandom, otherwise the GPU's
/// index.
std::uint64_t PreferenceRank(int gpu, const GpuChoice& choice);

}  // namespace divvy
