// The cluster as one waiting job sees it when its turn comes, as it is or as it would be after a change: whether it may
// start at all, and whether there is room.
//
// What is promised to those behind it does not bind it, nor does its own promise. Those holds are lifted while a View
// lives and put back exactly as they were; nothing else may touch the cluster meanwhile.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/state.h"

namespace divvy::core {

struct Seeker {
  Ask ask;
  ClassKey key;  // But for key.ask, which may be of before the change.
  Place place;
};
/// Requires: it waits.
Seeker SeekerOf(const Cluster::State& state, JobId entry);
Key OrderOf(const Cluster::State& state, const Seeker& seeker, Time now);

/// A cap, a limit or a quota keeps such a job from starting whatever is free.
bool IsBarred(const Cluster::State& state, const Ask& ask, const ClassKey& key);

/// How many tasks of `shape` a node so free has room for.
std::int64_t RoomOf(const NodeState& node, const Shape& shape);
/// The same of a group, whichever of its alternatives serves it best.
std::int64_t RoomOf(const NodeState& node, const TaskGroup& group);
/// GPUs of the node with room for one of the shape's.
inline int FreeGpus(const NodeState& node, const Shape& shape) {
  return shape.milli == placement::kGpuMilli ? node.whole : placement::CountFitting(node, shape.milli);
}
inline bool IsOfKind(const NodeFacts& facts, const Shape& shape) {
  return shape.gpus == 0 || ((shape.models >> facts.kind) & 1) != 0;
}
inline bool IsSingle(const Ask& ask) { return ask.groups.size() == 1 && ask.groups.front().least == 1; }
bool NeedsTopology(const Ask& ask, const Shape& shape);
GpuMask WholeFreeOf(const NodeState& node);

/// The name of a domain that tasks must share; kAnywhere: 0.
std::uint64_t DomainOf(const NodeFacts& facts, NodeIndex node, Together level);

class View {
 public:
  View(Cluster::State& state, Seeker seeker, Time now);
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  const Cluster::State& state() const { return state_; }
  const Seeker& seeker() const { return seeker_; }
  const Key& order() const { return order_; }
  Time now() const { return now_; }

  bool IsBarred() const;
  /// Places of a cap that are not for this job: of those who run, and of those before it who are promised one.
  int TakenOf(CapIndex cap) const;
  /// In strict order, who is blocked before it.
  std::optional<JobId> BlockedBefore() const;
  /// A node where it would start now, the first of its tasks; nothing: there is no room.
  std::optional<NodeIndex> Room();
  /// All three together.
  std::optional<NodeIndex> WouldStart();

  /// The hold keeps something from this job, now or before it would end.
  bool Binds(const Hold& hold) const;

 private:
  struct Lifted {
    NodeIndex node = 0;
    std::vector<Hold> holds;
  };
  void Lift(const PromiseSlot& slot);
  std::optional<NodeIndex> RoomForOne();
  std::optional<NodeIndex> RoomForGang();
  bool IsCountable() const;
  bool FitsUnheld() const;
  std::vector<NodeIndex> GangScope() const;
  bool HasTopology(const Node& node, const Shape& shape);

  Cluster::State& state_;
  Seeker seeker_;
  Time now_;
  Key order_;
  std::vector<Lifted> lifted_;
  std::vector<JobId> before_;  // Have a promise and stand before it.
  struct Joined {
    const GpuTopology* topology;
    GpuMask idle;
    int gpus;
    bool is_there;
  };
  std::vector<Joined> joined_;  // Searched sets: nodes of one kind repeat.
};

}  // namespace divvy::core
