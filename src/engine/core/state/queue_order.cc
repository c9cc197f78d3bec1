#include "engine/core/state/queue_order.h"

#include <algorithm>

#include "engine/core/state/state.h"

namespace divvy::core {
namespace {

/// The next entry of a class.
struct Cursor {
  Key key;
  ClassIndex job_class = 0;
  ClassQueue::Position at;
  static bool Later(const Cursor& a, const Cursor& b) { return b.key < a.key; }
};

}  // namespace

std::vector<JobId> QueueOrder(const Cluster& cluster, Time now, std::size_t limit) {
  const ClusterState& state = cluster.state();
  const std::size_t most = limit > 0 ? limit : state.waiting.size();
  std::vector<Cursor> heap;
  for (ClassIndex index = 0; index < state.classes.size(); ++index) {
    const ClassQueue& queue = state.classes[index].queue;
    if (queue.empty()) continue;
    heap.push_back({state.KeyAt(index, queue.At(queue.begin()).place, now), index, queue.begin()});
  }
  std::make_heap(heap.begin(), heap.end(), Cursor::Later);
  std::vector<JobId> order;
  while (!heap.empty() && order.size() < most) {
    std::pop_heap(heap.begin(), heap.end(), Cursor::Later);
    Cursor& next = heap.back();
    order.push_back(next.key.id);
    const ClassQueue& queue = state.classes[next.job_class].queue;
    next.at = queue.Next(next.at);
    if (queue.IsEnd(next.at)) {
      heap.pop_back();
      continue;
    }
    next.key = state.KeyAt(next.job_class, queue.At(next.at).place, now);
    std::push_heap(heap.begin(), heap.end(), Cursor::Later);
  }
  if (order.size() >= most) return order;
  std::vector<Place> apart;
  for (const auto& [id, entry] : state.waiting) {
    if (entry.lane != Waiting::Lane::kReady) apart.push_back(entry.place);
  }
  std::sort(apart.begin(), apart.end());
  for (const Place& place : apart) {
    if (order.size() >= most) break;
    order.push_back(place.id);
  }
  return order;
}

}  // namespace divvy::core
