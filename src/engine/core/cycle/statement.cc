#include "engine/core/cycle/statement.h"

#include <algorithm>

#include "base/result.h"

namespace divvy::core {

void Statement::Remove(JobId job, const TaskPlacement& placed, const Shape& shape) {
  auto& placements = state_.nodes[placed.node].placements;
  const auto at = std::find_if(placements.begin(), placements.end(), [&](const RunningTask& one) {
    return one.job == job && one.place == placed.place && one.shape == shape;
  });
  DIVVY_ASSERT(at != placements.end());
  steps_.push_back({placed.node, static_cast<std::size_t>(at - placements.begin()), *at, false});
  placements.erase(at);
  state_.Rebuild(placed.node);
}

void Statement::Add(JobId job, const TaskPlacement& placed, const Shape& shape) {
  RunningTask one;
  one.job = job;
  one.shape = shape;
  one.place = placed.place;
  auto& placements = state_.nodes[placed.node].placements;
  steps_.push_back({placed.node, placements.size(), one, true});
  placements.push_back(one);
  state_.Rebuild(placed.node);
}

void Statement::Rollback(std::size_t mark) {
  while (steps_.size() > mark) {
    const Step step = std::move(steps_.back());
    steps_.pop_back();
    auto& placements = state_.nodes[step.node].placements;
    const auto at = placements.begin() + static_cast<std::ptrdiff_t>(step.at);
    if (step.is_added) {
      placements.erase(at);
    } else {
      placements.insert(at, step.placed);
    }
    state_.Rebuild(step.node);
  }
}

}  // namespace divvy::core
