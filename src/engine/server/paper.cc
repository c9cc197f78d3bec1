#include "engine/server/paper.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace divvy {
namespace {

constexpr GpuShare kFullShare{GpuShare::kWhole};

/// Changed on a copy, which is kept where all of it succeeds.
class Paper {
 public:
  Paper(const BookNode& node, const std::vector<PaperTenant>& tenants, GpuSet cut)
      : node_(&node), tenants_(tenants), cut_(cut) {
    for (const int index : node.present().ToVector())
      room_[static_cast<std::size_t>(index)] = node.room(static_cast<GpuIndex>(index));
  }

  const std::vector<PaperTenant>& tenants() const { return tenants_; }
  std::vector<PaperMove> moves;

  GpuShare room(GpuIndex gpu) const { return room_[gpu]; }
  /// Of those that are there: nobody has it whole, or slices of it.
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
    // The largest first: it finds room last.
    std::ranges::stable_sort(on, [&](std::size_t a, std::size_t b) { return tenants_[a].share > tenants_[b].share; });
    return on;
  }

  /// Nobody that has to stay is on it, nor anybody who is none of ours.
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
    PaperTenant& moved = tenants_[tenant];
    moved.gpus.Erase(from);
    moved.gpus.Insert(to);
    room_[from] = room_[from] + moved.share;
    room_[to] = room_[to] - moved.share;
    moves.push_back({moved.job, moved.gpus});
  }

 private:
  const BookNode* node_;
  std::vector<PaperTenant> tenants_;
  GpuSet cut_;
  std::array<GpuShare, GpuSet::kCapacity> room_{};
};

/// Makes room for somebody on `gpu` by counting others elsewhere.
bool Evict(Paper& paper, GpuIndex gpu, GpuShare wanted) {
  const std::vector<std::size_t> on = paper.On(gpu);
  for (auto at = on.rbegin(); at != on.rend() && paper.room(gpu) < wanted; ++at) {
    if (!paper.tenants()[*at].stays.empty()) continue;
    if (const auto to = paper.PlaceFor(*at, gpu, true)) paper.Move(*at, gpu, *to);
  }
  return paper.room(gpu) >= wanted;
}

bool CountWhereItStays(Paper& paper, std::size_t tenant) {
  for (const int index : paper.tenants()[tenant].stays.ToVector()) {
    const auto to = static_cast<GpuIndex>(index);
    const GpuSet elsewhere = paper.tenants()[tenant].gpus - paper.tenants()[tenant].stays;
    if (paper.tenants()[tenant].gpus.Contains(to)) continue;
    if (elsewhere.empty() || !paper.TakesParts(to) || !Evict(paper, to, paper.tenants()[tenant].share)) return false;
    paper.Move(tenant, static_cast<GpuIndex>(elsewhere.ToVector().front()), to);
  }
  return true;
}

bool Empty(Paper& paper, GpuIndex gpu) {
  for (const std::size_t tenant : paper.On(gpu)) {
    const auto to = paper.PlaceFor(tenant, gpu, false);
    if (!to) return false;
    paper.Move(tenant, gpu, *to);
  }
  return true;
}

/// One GPU less with parts of it; false: no GPU can be emptied.
bool EmptyOne(Paper& paper, const BookNode& node) {
  std::vector<GpuIndex> shared;
  for (const int index : node.present().ToVector()) {
    const auto gpu = static_cast<GpuIndex>(index);
    if (paper.is_shared(gpu) && paper.CanBeEmptied(gpu)) shared.push_back(gpu);
  }
  // The emptiest first, and of those the last.
  std::ranges::sort(shared,
                    [&](GpuIndex a, GpuIndex b) { return std::pair(paper.room(b), b) < std::pair(paper.room(a), a); });
  for (const GpuIndex gpu : shared) {
    Paper tried = paper;
    if (!Empty(tried, gpu)) continue;
    paper = std::move(tried);
    return true;
  }
  return false;
}

}  // namespace

std::vector<PaperMove> PackOnPaper(const BookNode& node, const std::vector<PaperTenant>& tenants, GpuSet cut) {
  Paper paper(node, tenants, cut);
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    if (tenants[i].stays.empty() || tenants[i].stays == tenants[i].gpus) continue;
    Paper tried = paper;
    if (CountWhereItStays(tried, i)) paper = std::move(tried);
  }
  while (EmptyOne(paper, node)) continue;
  return std::move(paper.moves);
}

std::optional<GpuIndex> OtherGpuFor(const BookNode& node, GpuIndex from, GpuSet own, GpuSet cut, GpuShare share) {
  const Paper paper(node, {PaperTenant{JobId(), own, share, GpuSet()}}, cut);
  const auto shared = paper.PlaceFor(0, from, false);
  return shared ? shared : paper.PlaceFor(0, from, true);
}

}  // namespace divvy
