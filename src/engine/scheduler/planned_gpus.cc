#include "engine/scheduler/planned_gpus.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace divvy {
namespace {

constexpr GpuShare kFullShare{GpuShare::kWhole};

/// The planned placement of tenants. Callers change a copy and keep it if every step succeeds.
class Planner {
 public:
  Planner(const NodeUsage& node, const std::vector<PlannedTenant>& tenants, GpuSet cut)
      : node_(&node), tenants_(tenants), cut_(cut) {
    for (const int index : node.present().ToVector())
      room_[static_cast<std::size_t>(index)] = node.room(static_cast<GpuIndex>(index));
  }

  const std::vector<PlannedTenant>& tenants() const { return tenants_; }
  std::vector<PlannedMove> moves;

  GpuShare room(GpuIndex gpu) const { return room_[gpu]; }
  /// True if the GPU exists, no job has it whole, and it is not cut into MIG instances.
  bool TakesParts(GpuIndex gpu) const {
    const bool is_there = node_->present().Contains(gpu);
    return is_there && !node_->owners[gpu].is_set() && !cut_.Contains(gpu) && !node_->capacity.gpus[gpu].is_only_sliced;
  }
  bool is_shared(GpuIndex gpu) const { return !node_->owners[gpu].is_set() && room_[gpu] < kFullShare; }

  std::vector<std::size_t> On(GpuIndex gpu) const {
    std::vector<std::size_t> on;
    for (std::size_t i = 0; i < tenants_.size(); ++i) {
      if (tenants_[i].gpus.Contains(gpu)) on.push_back(i);
    }
    // Moves the tenant with the largest fraction first, because it is the hardest to place.
    std::ranges::stable_sort(on, [&](std::size_t a, std::size_t b) { return tenants_[a].share > tenants_[b].share; });
    return on;
  }

  /// True if all tenants on the GPU are among `tenants_` and can be migrated.
  bool CanBeEmptied(GpuIndex gpu) const {
    GpuShare ours;
    for (const std::size_t i : On(gpu)) {
      if (!tenants_[i].stays.empty()) return false;
      ours = ours + tenants_[i].share;
    }
    return kFullShare - room_[gpu] == ours;
  }

  std::optional<GpuIndex> PlaceFor(std::size_t tenant, GpuIndex from, bool takes_free) const {
    const GpuFacts& like = node_->capacity.gpus[from];
    std::optional<GpuIndex> best;
    for (const int index : (node_->usable - tenants_[tenant].gpus).ToVector()) {
      const auto gpu = static_cast<GpuIndex>(index);
      const GpuFacts& facts = node_->capacity.gpus[gpu];
      if (facts.model != like.model || facts.memory_total != like.memory_total) continue;
      if (!TakesParts(gpu) || room_[gpu] < tenants_[tenant].share) continue;
      if (!is_shared(gpu) && !takes_free) continue;
      if (!best || room_[gpu] < room_[*best]) best = gpu;
    }
    return best;
  }

  void Move(std::size_t tenant, GpuIndex from, GpuIndex to) {
    PlannedTenant& moved = tenants_[tenant];
    moved.gpus.Erase(from);
    moved.gpus.Insert(to);
    room_[from] = room_[from] + moved.share;
    room_[to] = room_[to] - moved.share;
    moves.push_back({moved.job, moved.gpus});
  }

 private:
  const NodeUsage* node_;
  std::vector<PlannedTenant> tenants_;
  GpuSet cut_;
  std::array<GpuShare, GpuSet::kCapacity> room_{};
};

/// Makes room for `wanted` on `gpu` by counting other tenants elsewhere. Returns false if that is not enough.
bool Evict(Planner& planner, GpuIndex gpu, GpuShare wanted) {
  const std::vector<std::size_t> on = planner.On(gpu);
  for (auto at = on.rbegin(); at != on.rend() && planner.room(gpu) < wanted; ++at) {
    if (!planner.tenants()[*at].stays.empty()) continue;
    if (const auto to = planner.PlaceFor(*at, gpu, true)) planner.Move(*at, gpu, *to);
  }
  return planner.room(gpu) >= wanted;
}

bool CountWhereItStays(Planner& planner, std::size_t tenant) {
  for (const int index : planner.tenants()[tenant].stays.ToVector()) {
    const auto to = static_cast<GpuIndex>(index);
    const GpuSet elsewhere = planner.tenants()[tenant].gpus - planner.tenants()[tenant].stays;
    if (planner.tenants()[tenant].gpus.Contains(to)) continue;
    if (elsewhere.empty() || !planner.TakesParts(to) || !Evict(planner, to, planner.tenants()[tenant].share))
      return false;
    planner.Move(tenant, static_cast<GpuIndex>(elsewhere.ToVector().front()), to);
  }
  return true;
}

bool Empty(Planner& planner, GpuIndex gpu) {
  for (const std::size_t tenant : planner.On(gpu)) {
    const auto to = planner.PlaceFor(tenant, gpu, false);
    if (!to) return false;
    planner.Move(tenant, gpu, *to);
  }
  return true;
}

/// Empties one shared GPU; returns false if none can be emptied.
bool EmptyOne(Planner& planner, const NodeUsage& node) {
  std::vector<GpuIndex> shared;
  for (const int index : node.present().ToVector()) {
    const auto gpu = static_cast<GpuIndex>(index);
    if (planner.is_shared(gpu) && planner.CanBeEmptied(gpu)) shared.push_back(gpu);
  }
  // Tries to empty the GPU with the most room first; of equal ones, the one with the highest index.
  std::ranges::sort(
      shared, [&](GpuIndex a, GpuIndex b) { return std::pair(planner.room(b), b) < std::pair(planner.room(a), a); });
  for (const GpuIndex gpu : shared) {
    Planner tried = planner;
    if (!Empty(tried, gpu)) continue;
    planner = std::move(tried);
    return true;
  }
  return false;
}

}  // namespace

std::vector<PlannedMove> PackPlannedGpus(const NodeUsage& node, const std::vector<PlannedTenant>& tenants, GpuSet cut) {
  Planner planner(node, tenants, cut);
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    if (tenants[i].stays.empty() || tenants[i].stays == tenants[i].gpus) continue;
    Planner tried = planner;
    if (CountWhereItStays(tried, i)) planner = std::move(tried);
  }
  while (EmptyOne(planner, node)) continue;
  return std::move(planner.moves);
}

std::optional<GpuIndex> OtherGpuFor(const NodeUsage& node, GpuIndex from, GpuSet own, GpuSet cut, GpuShare share) {
  const Planner planner(node, {PlannedTenant{JobId(), own, share, GpuSet()}}, cut);
  const auto shared = planner.PlaceFor(0, from, false);
  return shared ? shared : planner.PlaceFor(0, from, true);
}

}  // namespace divvy
