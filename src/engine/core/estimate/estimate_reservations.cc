// Resources that advance reservations deny to the job whose start is estimated.
#include <algorithm>

#include "engine/core/estimate/estimate_supply.h"
#include "engine/core/place/placer.h"

namespace divvy::core {

// Subtracts what advance reservations deny to the job on this node. Requires: `index` is the last of nodes_.
void Supply::Close(NodeIndex index) {
  const Node& node = state_.nodes[index];
  Closed closed;
  GpuSet gpus;
  for (const ReservedCapacity& reserved : node.reserved) {
    if (reserved.advance == 0 || !perspective_.Binds(reserved)) continue;
    closed.stretches.push_back({reserved.place.gpus, reserved.until});
    gpus |= reserved.place.gpus;
  }
  if (gpus.empty()) return;
  closed.now = node.state;
  placement::Block(closed.now, gpus);
  closed_[nodes_.size() - 1] = std::move(closed);
}

const NodeState& Supply::StateNow(std::size_t index) const {
  const auto closed = closed_.find(index);
  return closed == closed_.end() ? state_.nodes[nodes_[index]].state : closed->second.now;
}

NodeState Supply::StateBy(Outcome outcome, std::size_t index, Time moment) const {
  const Node& node = state_.nodes[nodes_[index]];
  NodeState state = node.state;
  for (std::size_t i = first_[index]; i < first_[index + 1]; ++i) {
    if (at(outcome)[i] <= moment) ReleaseTask(node, node.placements[i - first_[index]], state);
  }
  const auto closed = closed_.find(index);
  if (closed == closed_.end()) return state;
  for (const Closed::Stretch& stretch : closed->second.stretches) {
    if (stretch.until > moment) placement::Block(state, stretch.gpus);
  }
  return state;
}

bool Supply::EndsAdvanceReservation(std::size_t index, Time moment) const {
  const auto closed = closed_.find(index);
  if (closed == closed_.end()) return false;
  const auto& stretches = closed->second.stretches;
  return std::any_of(stretches.begin(), stretches.end(), [&](const auto& one) { return one.until == moment; });
}

}  // namespace divvy::core
