// Temporary changes of the pieces on nodes, for what-if questions: pieces are removed and added, and restored at the
// end in reverse order. Teams, queues and runs are not affected; only the free room of nodes changes.
#pragma once

#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

class Trial {
 public:
  explicit Trial(Cluster::State& state) : state_(state) {}
  ~Trial() { BackTo(0); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// Requires: the job has the piece there.
  void Remove(JobId job, const Piece& piece, const Shape& shape);
  /// Requires: there is room for it.
  void Add(JobId job, const Piece& piece, const Shape& shape);

  std::size_t mark() const { return steps_.size(); }
  void BackTo(std::size_t mark);

 private:
  struct Step {
    NodeIndex node = 0;
    std::size_t at = 0;
    RunPiece piece;
    bool is_added = false;
  };
  Cluster::State& state_;
  std::vector<Step> steps_;
};

}  // namespace divvy::core
