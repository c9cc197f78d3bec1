#include "engine/gpu_choice.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>
#include <vector>

namespace divvy {
namespace {

// SplitMix64 (Steele, Lea and Flood 2014): one draw becomes a rank for every GPU.
std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

GpuSet ByDraw(GpuSet candidates, int count, const GpuChoice& choice) {
  std::vector<int> order = candidates.ToVector();
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(PreferenceRank(a, choice), a) < std::pair(PreferenceRank(b, choice), b);
  });
  order.resize(static_cast<std::size_t>(count));
  return GpuSet::Of(order);
}

GpuSet Spread(GpuSet candidates, int count, const GpuTopology& node) {
  struct Turn {
    int number;      // Its index among the candidates of its NUMA node.
    int less_first;  // The number of candidates there, negated: the fullest NUMA node goes first.
    int gpu;
    auto operator<=>(const Turn&) const = default;
  };
  std::vector<Turn> turns;
  for (int gpu : candidates.ToVector()) {
    Turn turn{0, 0, gpu};
    for (int other : candidates.ToVector()) {
      if (node.numa_node(other) != node.numa_node(gpu)) continue;
      turn.less_first -= 1;
      if (other < gpu) turn.number += 1;
    }
    turns.push_back(turn);
  }
  std::sort(turns.begin(), turns.end());
  GpuSet picked;
  for (int i = 0; i < count; ++i) picked.Insert(static_cast<GpuIndex>(turns[static_cast<std::size_t>(i)].gpu));
  return picked;
}

std::optional<GpuSet> Locality(GpuSet candidates, int count, const GpuChoice& choice) {
  static const SizeDemand kDemand = UsualSizeDemand();
  if (auto set = choice.node->Pick(candidates, count, kDemand, choice.topology)) return set;
  if (choice.node->size() <= GpuTopology::kExact) return std::nullopt;
  // The node has more GPUs than Pick searches exactly.
  const std::vector<int> order = candidates.ToVector();
  const auto sets = GrownSets(order, count, choice);
  if (sets.empty()) return std::nullopt;
  GpuSet first;
  for (std::size_t place : sets.front()) first.Insert(static_cast<GpuIndex>(order[place]));
  return first;
}

}  // namespace

std::vector<std::vector<std::size_t>> GrownSets(std::span<const int> order, int count, const GpuChoice& choice) {
  std::vector<std::vector<std::size_t>> sets;
  for (std::size_t seed = 0; seed < order.size(); ++seed) {
    std::vector<std::size_t> places = {seed};
    GpuSet set;
    set.Insert(static_cast<GpuIndex>(order[seed]));
    for (std::size_t place = 0; place < order.size() && set.size() < count; ++place) {
      GpuSet larger = set;
      larger.Insert(static_cast<GpuIndex>(order[place]));
      if (larger == set || !choice.node->Satisfies(larger, choice.topology)) continue;
      set = larger;
      places.push_back(place);
    }
    if (set.size() != count) continue;
    std::sort(places.begin(), places.end());
    sets.push_back(std::move(places));
  }
  return sets;
}

std::uint64_t PreferenceRank(int gpu, const GpuChoice& choice) {
  const auto index = static_cast<std::uint64_t>(gpu);
  return choice.placement == PlacementStrategy::kRandom ? Mix(choice.draw ^ Mix(index)) : index;
}

std::optional<GpuSet> PickGpus(GpuSet candidates, int count, const GpuChoice& choice) {
  if (candidates.size() < count) return std::nullopt;
  if (count == 0) return GpuSet();
  if (choice.topology != TopologyNeed::kAny) {
    if (auto set = Locality(candidates, count, choice)) return set;
    if (choice.requires_topology) return std::nullopt;
  }
  if (choice.topology != TopologyNeed::kAny || choice.placement == PlacementStrategy::kBest) {
    GpuChoice any = choice;
    any.topology = TopologyNeed::kAny;
    return Locality(candidates, count, any);
  }
  if (choice.placement == PlacementStrategy::kRandom) return ByDraw(candidates, count, choice);
  if (choice.placement == PlacementStrategy::kSpread) return Spread(candidates, count, *choice.node);
  return candidates.Lowest(count);
}

bool Suits(GpuSet gpus, const GpuChoice& choice) {
  return !choice.is_strict() || choice.node->Satisfies(gpus, choice.topology);
}

int MostInOneDomain(GpuSet gpus, const GpuChoice& choice) {
  for (int count = gpus.size(); count > 1; --count) {
    if (Locality(gpus, count, choice)) return count;
  }
  return gpus.empty() ? 0 : 1;
}

}  // namespace divvy
