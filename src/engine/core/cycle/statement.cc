#include "engine/core/cycle/statement.h"

#include <algorithm>

#include "base/result.h"

namespace divvy::core {

void Statement::Remove(JobId job, const TaskPlacement& piece, const Shape& shape) {
  auto& pieces = state_.nodes[piece.node].pieces;
  const auto at = std::find_if(pieces.begin(), pieces.end(), [&](const RunPiece& one) {
    return one.job == job && one.place == piece.place && one.shape == shape;
  });
  DIVVY_ASSERT(at != pieces.end());
  steps_.push_back({piece.node, static_cast<std::size_t>(at - pieces.begin()), *at, false});
  pieces.erase(at);
  state_.Rebuild(piece.node);
}

void Statement::Add(JobId job, const TaskPlacement& piece, const Shape& shape) {
  RunPiece one;
  one.job = job;
  one.shape = shape;
  one.place = piece.place;
  auto& pieces = state_.nodes[piece.node].pieces;
  steps_.push_back({piece.node, pieces.size(), one, true});
  pieces.push_back(one);
  state_.Rebuild(piece.node);
}

void Statement::BackTo(std::size_t mark) {
  while (steps_.size() > mark) {
    const Step step = std::move(steps_.back());
    steps_.pop_back();
    auto& pieces = state_.nodes[step.node].pieces;
    const auto at = pieces.begin() + static_cast<std::ptrdiff_t>(step.at);
    if (step.is_added) {
      pieces.erase(at);
    } else {
      pieces.insert(at, step.piece);
    }
    state_.Rebuild(step.node);
  }
}

}  // namespace divvy::core
