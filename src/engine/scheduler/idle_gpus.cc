#include "engine/scheduler/idle_gpus.h"

#include <algorithm>

#include "engine/core/place/placer.h"

namespace divvy {

IdleGpus::IdleGpus(const Scheduler& scheduler, Time now) {
  nodes_.reserve(scheduler.nodes().size());
  for (const NodeUsage& node : scheduler.nodes()) nodes_.push_back({node.free(), {}, {}});
  for (const core::AdvanceReservation& advance : scheduler.core().state().advance_reservations) {
    if (advance.from > now || advance.until <= now) continue;
    for (const core::TaskPlacement& placed : advance.placements) {
      OnNode& node = nodes_[placed.node];
      const GpuSet kept = node.free & placed.place.gpus;
      node.free = node.free - kept;
      node.reserved = node.reserved | kept;
      for (const int gpu : kept.ToVector()) reserved_[{placed.node, static_cast<GpuIndex>(gpu)}] = advance.id;
    }
  }
  if (scheduler.classifier().exclusive_sizes() == 0) return;
  for (const auto& [id, job] : scheduler.running_jobs()) {
    if (job.pool.empty() || !scheduler.classifier().IsExclusive(job.pool)) continue;
    for (const NodeResources& place : job.places()) {
      OnNode& node = nodes_[place.node];
      node.unused = node.unused | node.free | node.reserved;
      node.free = node.reserved = GpuSet();
      alone_[place.node] = id;
    }
  }
}

std::optional<std::uint64_t> IdleGpus::AdvanceReservationOf(NodeIndex node, GpuIndex gpu) const {
  const auto at = reserved_.find({node, gpu});
  if (at == reserved_.end() || !nodes_[node].reserved.Contains(gpu)) return std::nullopt;
  return at->second;
}

std::optional<JobId> IdleGpus::AloneOn(NodeIndex node) const {
  const auto at = alone_.find(node);
  return at == alone_.end() ? std::nullopt : std::optional(at->second);
}

int IdleGpus::free_count() const {
  int count = 0;
  for (const OnNode& node : nodes_) count += node.free.size();
  return count;
}

int IdleGpus::reserved_count() const {
  int count = 0;
  for (const OnNode& node : nodes_) count += node.reserved.size();
  return count;
}

std::vector<NodeResources> PlacesOfReservation(const Scheduler& scheduler, std::uint64_t advance) {
  std::vector<NodeResources> places;
  const core::AdvanceReservation* found = core::AdvanceReservationOf(scheduler.core().state(), advance);
  if (found == nullptr) return places;
  for (const core::TaskPlacement& placed : found->placements) {
    NodeResources place;
    place.node = placed.node;
    place.gpus = placed.place.gpus;
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace divvy
