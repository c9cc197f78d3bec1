#include "engine/scheduler/idle_gpus.h"

#include <algorithm>

#include "engine/core/place/placer.h"

namespace divvy {

IdleGpus::IdleGpus(const Scheduler& server, Time now) {
  nodes_.reserve(server.nodes().size());
  for (const NodeUsage& node : server.nodes()) nodes_.push_back({node.free(), {}, {}});
  for (const core::AdvanceReservation& booking : server.core().state().bookings) {
    if (booking.from > now || booking.until <= now) continue;
    for (const core::TaskPlacement& piece : booking.pieces) {
      OnNode& node = nodes_[piece.node];
      const GpuSet kept = node.free & piece.place.gpus;
      node.free = node.free - kept;
      node.reserved = node.reserved | kept;
      for (const int gpu : kept.ToVector()) bookings_[{piece.node, static_cast<GpuIndex>(gpu)}] = booking.id;
    }
  }
  if (server.kinds().exclusive_sizes() == 0) return;
  for (const auto& [id, job] : server.running_jobs()) {
    if (job.pool.empty() || !server.kinds().IsExclusive(job.pool)) continue;
    for (const NodePlace& place : job.places()) {
      OnNode& node = nodes_[place.node];
      node.unused = node.unused | node.free | node.reserved;
      node.free = node.reserved = GpuSet();
      alone_[place.node] = id;
    }
  }
}

std::optional<std::uint64_t> IdleGpus::BookingOf(NodeIndex node, GpuIndex gpu) const {
  const auto at = bookings_.find({node, gpu});
  if (at == bookings_.end() || !nodes_[node].reserved.Contains(gpu)) return std::nullopt;
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

std::vector<NodePlace> PlacesOfBooking(const Scheduler& server, std::uint64_t booking) {
  std::vector<NodePlace> places;
  const core::AdvanceReservation* found = core::BookingOf(server.core().state(), booking);
  if (found == nullptr) return places;
  for (const core::TaskPlacement& piece : found->pieces) {
    NodePlace place;
    place.node = piece.node;
    place.gpus = piece.place.gpus;
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace divvy
