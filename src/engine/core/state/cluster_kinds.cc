// Reclassification of nodes: kinds were split or merged, or node properties changed.
//
// Kind numbers have no meaning of their own, so everything that uses them is rewritten at once: nodes, asks, and copies
// of asks (running pieces, holds, fronts). Which job may run where stays the same, except on nodes whose properties
// changed.
#include <algorithm>
#include <map>
#include <utility>

#include "base/result.h"
#include "engine/core/state/node_class_index.h"
#include "engine/core/state/state.h"

namespace divvy::core {
namespace {

class Renumbering {
 public:
  Renumbering(Cluster::State& state, const NodeClassIndex& book) : state_(state), book_(book) {}

  void Apply() {
    ChangeAsks();
    if (before_.empty()) return;
    for (auto& [id, run] : state_.running) ChangePieces(id, run);
    for (const NodeIndex node : state_.held) {
      for (ReservedCapacity& hold : state_.nodes[node].holds) ChangeHold(hold, state_.nodes[node].facts);
    }
    for (ClassIndex index = 0; index < state_.classes.size(); ++index) {
      const AskIndex ask = state_.classes[index].key.ask;
      if (before_.contains(ask)) state_.fronts[index].shape = state_.asks[ask].groups.front().alternatives.front();
    }
  }

 private:
  void ChangeAsks() {
    for (AskIndex index = 0; index < state_.asks.size(); ++index) {
      Ask now = state_.asks[index];
      for (TaskGroup& group : now.groups) {
        for (std::size_t i = 0; i < group.filters.size(); ++i) {
          group.alternatives[i].models = book_.Accepted(group.filters[i]);
        }
      }
      if (now == state_.asks[index]) continue;
      before_.emplace(index, std::exchange(state_.asks[index], std::move(now)));
    }
    if (before_.empty()) return;
    state_.ask_index.clear();
    for (AskIndex index = 0; index < state_.asks.size(); ++index)
      state_.ask_index.try_emplace(state_.asks[index], index);
  }

  // Finds each piece on its node by its old shape, and updates each piece once.
  void ChangePieces(JobId id, const Run& run) {
    const AskIndex index = state_.classes[run.job_class].key.ask;
    const auto before = before_.find(index);
    if (before == before_.end()) return;
    std::vector<const RunPiece*> done;
    for (const TaskPlacement& piece : run.pieces) {
      const Shape& was = ShapeOf(before->second, piece);
      for (RunPiece& one : state_.nodes[piece.node].pieces) {
        const bool is_it = one.job == id && one.place == piece.place && one.shape == was;
        if (!is_it || std::find(done.begin(), done.end(), &one) != done.end()) continue;
        one.shape = ShapeOf(state_.asks[index], piece);
        done.push_back(&one);
        break;
      }
    }
  }

  /// The asks that the hold may have been made from: of a booking, a waiting job or a migrating job.
  std::vector<AskIndex> AsksOf(const ReservedCapacity& hold) const {
    std::vector<AskIndex> asks;
    for (const AdvanceReservation& booking : state_.bookings) {
      if (hold.booking != 0 && booking.id == hold.booking) asks.push_back(booking.ask);
    }
    if (const auto at = state_.moving.find(hold.entry); at != state_.moving.end()) asks.push_back(at->second.ask);
    if (const auto at = state_.waiting.find(hold.entry); at != state_.waiting.end()) {
      asks.push_back(state_.classes[at->second.job_class].key.ask);
    }
    if (const auto at = state_.running.find(hold.entry); at != state_.running.end()) {
      asks.push_back(state_.classes[at->second.job_class].key.ask);
    }
    return asks;
  }

  // If several alternatives had the same kinds so far, takes the one that this node still satisfies.
  void ChangeHold(ReservedCapacity& hold, const NodeFacts& facts) const {
    for (const AskIndex index : AsksOf(hold)) {
      const auto before = before_.find(index);
      if (before == before_.end()) continue;
      std::optional<placement::ModelSet> models;
      for (std::size_t group = 0; group < before->second.groups.size(); ++group) {
        const std::vector<Shape>& was = before->second.groups[group].alternatives;
        for (std::size_t i = 0; i < was.size(); ++i) {
          if (was[i].models != hold.shape.models || was[i].gpus < hold.shape.gpus) continue;
          const placement::ModelSet now = state_.asks[index].groups[group].alternatives[i].models;
          if (!models || ((now >> facts.kind) & 1) != 0) models = now;
        }
      }
      if (!models) continue;
      hold.shape.models = *models;
      return;
    }
  }

  Cluster::State& state_;
  const NodeClassIndex& book_;
  std::map<AskIndex, Ask> before_;
};

}  // namespace

void Cluster::SetKinds(const NodeClassIndex& book, const KindChange& change,
                       std::shared_ptr<const placement::Scorer> scorer) {
  State& s = *state_;
  DIVVY_ASSERT(book.node_count() == s.nodes.size());
  s.fleet.reset();
  SetScorer(std::move(scorer));
  if (change.empty()) return;
  for (const NodeIndex index : change.renumbered) {
    Node& node = s.nodes[index];
    book.Fill(index, node.facts);
    node.state.model = static_cast<std::uint8_t>(node.facts.kind);
  }
  Renumbering(s, book).Apply();
  s.mixed.clear();
  for (NodeIndex index = 0; index < s.nodes.size(); ++index) {
    if (s.nodes[index].is_mixed()) s.mixed.push_back(index);
  }
  for (const NodeIndex index : change.changed) {
    const GpuSet usable = GpuSet::FirstN(s.nodes[index].facts.gpus) - s.nodes[index].blocked;
    SetUsable(index, usable, s.nodes[index].accepts);
  }
}

}  // namespace divvy::core
