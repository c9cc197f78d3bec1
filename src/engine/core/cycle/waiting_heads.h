// The first waiting job of each class, in queue order. A search that serves waiting jobs in this order takes a head,
// and puts the next job of its class back if that one may be served too.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

class WaitingHeads {
 public:
  struct Head {
    Key key;
    ClassIndex job_class = 0;
    Place place;
  };

  /// The state must outlive it, and may change meanwhile.
  WaitingHeads(const ClusterState& state, Time now) : state_(state), now_(now) {}

  bool empty() const { return heap_.empty(); }

  /// Adds the first job of the class. Requires: jobs of the class wait. Cost: O(log heads).
  void Add(ClassIndex index) {
    const ClassQueue& queue = state_.classes[index].queue;
    Push({{}, index, queue.At(queue.begin()).place});
  }

  /// Adds the first job of each class that needs GPUs.
  void AddAllWithGpus() {
    for (ClassIndex index = 0; index < state_.classes.size(); ++index) {
      if (!state_.classes[index].queue.empty() && state_.classes[index].wants_gpu) Add(index);
    }
  }

  /// Removes and returns the job that is first in queue order. Requires: not empty.
  Head Take() {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Head head = std::move(heap_.back());
    heap_.pop_back();
    return head;
  }

  /// Adds the job behind `head` in its class, if there is one. Requires: `head` still waits. Cost: O(log heads).
  void AddNext(Head head) {
    const ClassQueue& queue = state_.classes[head.job_class].queue;
    const ClassQueue::Position next = queue.Next(queue.LowerBound(head.place));
    if (queue.IsEnd(next)) return;
    head.place = queue.At(next).place;
    Push(std::move(head));
  }

 private:
  static bool Later(const Head& a, const Head& b) { return b.key < a.key; }

  void Push(Head head) {
    head.key = state_.KeyAt(head.job_class, head.place, now_);
    heap_.push_back(std::move(head));
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }

  const ClusterState& state_;
  Time now_;
  std::vector<Head> heap_;
};

}  // namespace divvy::core
