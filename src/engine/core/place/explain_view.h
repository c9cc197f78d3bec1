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

#include "engine/core/place/rights_kept.h"
#include "engine/core/state/state.h"

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
/// The same on a node with these facts: on GPUs that the group accepts, of `model` alone if there is one.
std::int64_t RoomOn(const NodeFacts& facts, const NodeState& node, const TaskGroup& group,
                    std::optional<int> model = {});
/// GPUs of the node with room for one of the shape's.
inline int FreeGpus(const NodeState& node, const Shape& shape) {
  const bool is_plain = shape.is_whole() && shape.gpu_memory_mib == 0;
  return is_plain ? node.whole : placement::CountFitting(node, shape);
}
inline bool IsOfKind(const NodeFacts& facts, const Shape& shape) { return ((shape.models >> facts.kind) & 1) != 0; }
inline bool IsSingle(const Ask& ask) { return ask.groups.size() == 1 && ask.groups.front().least == 1; }
bool NeedsTopology(const Ask& ask, const Shape& shape);
GpuSet WholeFreeOf(const NodeState& node);

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
  /// Those that have a promise and stand before this job.
  const std::vector<JobId>& before() const { return before_; }
  /// It has a promise and stands before this job.
  bool IsBefore(const PromiseSlot& slot) const;
  /// Of a cap, what nobody has and is not for this job either: it is kept for those before it who are promised a start.
  CapUse KeptOf(CapIndex cap) const;
  KeptOfTeams KeptOfItsTeams() const;
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
  Time Until() const;
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
    GpuSet idle;
    int gpus;
    bool is_there;
  };
  std::vector<Joined> joined_;  // Searched sets: nodes of one kind repeat.
};

}  // namespace divvy::core
