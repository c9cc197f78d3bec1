#include "engine/server/idle_gpus.h"

#include <algorithm>

#include "engine/core/explain_view.h"
#include "engine/core/placing.h"
#include "engine/server/blockers.h"

namespace divvy {

IdleGpus::IdleGpus(const Server& server, Time now, const std::function<bool(std::uint64_t booking)>& is_open) {
  nodes_.reserve(server.nodes().size());
  for (const BookNode& node : server.nodes()) nodes_.push_back({node.free(), {}, {}});
  for (const core::Booking& booking : server.core().state().bookings) {
    if (booking.from > now || booking.until <= now || (is_open && is_open(booking.id))) continue;
    for (const core::Piece& piece : booking.pieces) {
      OnNode& node = nodes_[piece.node];
      const GpuSet kept = node.free & GpuSet::FromBits(placement::GpusOf(piece.gpus));
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

namespace {

/// The GPUs of a node whose kind some part of the ask accepts, where it has enough of them at all; those that take MIG
/// instances alone only for such a part.
GpuSet AcceptedOn(const core::NodeFacts& facts, const core::Ask& ask) {
  GpuSet accepted;
  for (const core::TaskGroup& group : ask.groups) {
    for (const core::Shape& shape : group.alternatives) {
      if (shape.gpus == 0 || shape.gpus > facts.gpus || !core::IsOfKind(facts, shape)) continue;
      for (int gpu = 0; gpu < facts.gpus; ++gpu) {
        const int kind = facts.gpu_kinds.empty() ? facts.kind : facts.gpu_kinds[static_cast<std::size_t>(gpu)];
        const bool is_cut = ((facts.only_sliced >> gpu) & 1) != 0;
        if (((shape.models >> kind) & 1) != 0 && (shape.slice || !is_cut)) accepted.Insert(static_cast<GpuIndex>(gpu));
      }
    }
  }
  return accepted;
}

std::string TextOf(const Server& server, const WaitingEntry& entry, const IdleGpus& idle) {
  const core::Cluster::State& state = server.core().state();
  const core::Ask ask = server.AskAbout(entry.request, entry.pool, entry.placement);
  int free = 0, reserved = 0, unused = 0, others = 0;
  bool is_any_cut = false;
  for (NodeIndex node = 0; node < server.nodes().size(); ++node) {
    const GpuSet accepted = AcceptedOn(state.nodes[node].facts, ask);
    free += (idle.free(node) & accepted).size();
    reserved += (idle.reserved(node) & accepted).size();
    unused += (idle.unused(node) & accepted).size();
    const GpuSet barred = idle.free(node) - accepted;
    others += barred.size();
    is_any_cut |= !(barred & GpuSet::FromBits(state.nodes[node].facts.only_sliced)).empty();
  }
  std::string text = std::to_string(free) + " free";
  // What these are kept for, or why they do not fit, is for divvy why.
  if (free >= entry.request.gpus_in_all()) return text + ", but not for it now";
  if (reserved > 0) text += ", " + std::to_string(reserved) + " reserved";
  if (unused > 0) text += ", " + std::to_string(unused) + " on machines that are other jobs' alone";
  const Request& request = entry.request;
  const bool is_by_model = !request.gpu_type.empty() && request.node_list.empty() && request.excluded_nodes.empty() &&
                           request.constraint.empty() && entry.pool.empty() && !is_any_cut;
  if (others > 0) text += ", " + std::to_string(others) + (is_by_model ? " of another model" : " that it cannot use");
  return text;
}

}  // namespace

std::string IdleGpusText(const Server& server, const WaitingEntry& entry,
                         const std::function<bool(std::uint64_t booking)>& is_open) {
  return TextOf(server, entry, IdleGpus(server, server.core().state().bookings_seen, is_open));
}

IdleTexts::Texts& IdleTexts::Of(const WaitingEntry& entry) {
  // Found without a copy of the request.
  const auto at = texts_.find(std::tie(entry.request, entry.pool, entry.placement));
  if (at != texts_.end()) return at->second;
  return texts_[Wish(entry.request, entry.pool, entry.placement)];
}

const std::string& IdleTexts::OfGpus(const WaitingEntry& entry,
                                     const std::function<bool(std::uint64_t booking)>& is_open) {
  const core::Cluster::State& state = server_.core().state();
  std::vector<std::uint64_t> opened;
  for (const core::Booking& booking : state.bookings) {
    if (is_open && is_open(booking.id)) opened.push_back(booking.id);
  }
  const auto [text, is_new] = Of(entry).gpus.try_emplace(opened);
  if (!is_new) return text->second;
  auto idle = idle_.find(opened);
  if (idle == idle_.end()) idle = idle_.try_emplace(opened, server_, state.bookings_seen, is_open).first;
  return text->second = TextOf(server_, entry, idle->second);
}

const std::string& IdleTexts::OfNodes(const WaitingEntry& entry) {
  std::optional<std::string>& text = Of(entry).nodes;
  if (!text) text = IdleNodesText(server_, entry);
  return *text;
}

std::vector<NodePlace> PlacesOfBooking(const Server& server, std::uint64_t booking) {
  std::vector<NodePlace> places;
  const core::Booking* found = core::BookingOf(server.core().state(), booking);
  if (found == nullptr) return places;
  for (const core::Piece& piece : found->pieces) {
    NodePlace place;
    place.node = piece.node;
    place.gpus = GpuSet::FromBits(placement::GpusOf(piece.gpus));
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace divvy
