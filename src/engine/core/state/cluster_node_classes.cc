// Reclassification of nodes: classes were split or merged, or node properties changed.
//
// Class numbers have no meaning of their own, so everything that uses them is rewritten at once: nodes, requests, and
// copies of requests (running placements, reserved capacity, queue heads). Which job may run where stays the same,
// except on nodes whose properties changed.
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
  Renumbering(ClusterState& state, const NodeClassIndex& class_index) : state_(state), class_index_(class_index) {}

  void Apply() {
    ChangeAsks();
    if (before_.empty()) return;
    for (auto& [id, run] : state_.running) ChangePieces(id, run);
    for (const NodeIndex node : state_.held) {
      for (ReservedCapacity& reserved : state_.nodes[node].reserved) ChangeHold(reserved, state_.nodes[node].facts);
    }
    for (ClassIndex index = 0; index < state_.classes.size(); ++index) {
      const RequestIndex request = state_.classes[index].key.request;
      if (before_.contains(request))
        state_.queue_heads[index].shape = state_.requests[request].groups.front().alternatives.front();
    }
  }

 private:
  void ChangeAsks() {
    for (RequestIndex index = 0; index < state_.requests.size(); ++index) {
      ResourceRequest now = state_.requests[index];
      for (TaskGroup& group : now.groups) {
        for (std::size_t i = 0; i < group.filters.size(); ++i) {
          group.alternatives[i].models = class_index_.Accepted(group.filters[i]);
        }
      }
      if (now == state_.requests[index]) continue;
      before_.emplace(index, std::exchange(state_.requests[index], std::move(now)));
    }
    if (before_.empty()) return;
    state_.request_index.clear();
    for (RequestIndex index = 0; index < state_.requests.size(); ++index)
      state_.request_index.try_emplace(state_.requests[index], index);
  }

  // Finds each placement on its node by its old shape, and updates each placement once.
  void ChangePieces(JobId id, const Run& run) {
    const RequestIndex index = state_.classes[run.job_class].key.request;
    const auto before = before_.find(index);
    if (before == before_.end()) return;
    std::vector<const RunningTask*> done;
    for (const TaskPlacement& placed : run.placements) {
      const Shape& was = ShapeOf(before->second, placed);
      for (RunningTask& one : state_.nodes[placed.node].placements) {
        const bool is_it = one.job == id && one.place == placed.place && one.shape == was;
        if (!is_it || std::find(done.begin(), done.end(), &one) != done.end()) continue;
        one.shape = ShapeOf(state_.requests[index], placed);
        done.push_back(&one);
        break;
      }
    }
  }

  /// The requests that `reserved` may have been made from: those of an advance reservation, a waiting job or a
  /// migrating job.
  std::vector<RequestIndex> AsksOf(const ReservedCapacity& reserved) const {
    std::vector<RequestIndex> requests;
    for (const AdvanceReservation& advance : state_.advance_reservations) {
      if (reserved.advance != 0 && advance.id == reserved.advance) requests.push_back(advance.request);
    }
    if (const auto at = state_.moving.find(reserved.entry); at != state_.moving.end())
      requests.push_back(at->second.request);
    if (const auto at = state_.waiting.find(reserved.entry); at != state_.waiting.end()) {
      requests.push_back(state_.classes[at->second.job_class].key.request);
    }
    if (const auto at = state_.running.find(reserved.entry); at != state_.running.end()) {
      requests.push_back(state_.classes[at->second.job_class].key.request);
    }
    return requests;
  }

  // If several alternatives had the same classes so far, takes the one that this node still satisfies.
  void ChangeHold(ReservedCapacity& reserved, const NodeFacts& facts) const {
    for (const RequestIndex index : AsksOf(reserved)) {
      const auto before = before_.find(index);
      if (before == before_.end()) continue;
      std::optional<placement::ModelSet> models;
      for (std::size_t group = 0; group < before->second.groups.size(); ++group) {
        const std::vector<Shape>& was = before->second.groups[group].alternatives;
        for (std::size_t i = 0; i < was.size(); ++i) {
          if (was[i].models != reserved.shape.models || was[i].gpus < reserved.shape.gpus) continue;
          const placement::ModelSet now = state_.requests[index].groups[group].alternatives[i].models;
          if (!models || ((now >> facts.node_class) & 1) != 0) models = now;
        }
      }
      if (!models) continue;
      reserved.shape.models = *models;
      return;
    }
  }

  ClusterState& state_;
  const NodeClassIndex& class_index_;
  std::map<RequestIndex, ResourceRequest> before_;
};

}  // namespace

void Reclassify(ClusterState& s, const NodeClassIndex& class_index, const NodeClassChange& change) {
  for (const NodeIndex index : change.renumbered) {
    Node& node = s.nodes[index];
    class_index.Fill(index, node.facts);
    node.state.model = static_cast<std::uint8_t>(node.facts.node_class);
  }
  Renumbering(s, class_index).Apply();
  s.mixed.clear();
  for (NodeIndex index = 0; index < s.nodes.size(); ++index) {
    if (s.nodes[index].is_mixed()) s.mixed.push_back(index);
  }
}

}  // namespace divvy::core
