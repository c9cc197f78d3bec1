// Temporary changes of the placements on nodes, for what-if questions: placements are removed and added, and restored
// at the end in reverse order. Teams, queues and runs are not affected; only the free room of nodes changes.
#pragma once

#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

class Statement {
 public:
  explicit Statement(ClusterState& state) : state_(state) {}
  ~Statement() { Rollback(0); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Removes a task placement of a running job for the what-if question. Requires: the job has this placement.
  void Remove(JobId job, const TaskPlacement& placed, const Shape& shape);
  /// Adds a task placement for the what-if question. Requires: there is room for it.
  void Add(JobId job, const TaskPlacement& placed, const Shape& shape);

  std::size_t mark() const { return steps_.size(); }
  void Rollback(std::size_t mark);

 private:
  struct Step {
    NodeIndex node = 0;
    std::size_t at = 0;
    RunningTask placed;
    bool is_added = false;
  };
  ClusterState& state_;
  std::vector<Step> steps_;
};

}  // namespace divvy::core
