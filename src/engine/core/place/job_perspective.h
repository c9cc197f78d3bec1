// The cluster from the perspective of one waiting job at its turn, either as it is or after a hypothetical change:
// whether the job may start, and whether there is room.
//
// Reservations of jobs behind it, and its own, do not bind it. Their reserved capacity is lifted during the lifetime of
// a JobPerspective and restored exactly afterwards. Nothing else may change the cluster meanwhile.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/place/limit_reservations.h"
#include "engine/core/state/state.h"

namespace divvy::core {

struct Seeker {
  ResourceRequest request;
  ClassKey key;  // key.request is ignored; it may predate the hypothetical change.
  Place place;
};
/// Requires: the job waits.
Seeker SeekerOf(const ClusterState& state, JobId entry);
Key OrderOf(const ClusterState& state, const Seeker& seeker, Time now);

/// Returns whether a cap, a limit or a quota blocks such a job even if everything were free.
bool IsBarred(const ClusterState& state, const ResourceRequest& request, const ClassKey& key);

/// How many tasks of `shape` fit on a node with this free room.
std::int64_t RoomOf(const NodeState& node, const Shape& shape);
/// The maximum over the group's alternatives.
std::int64_t RoomOf(const NodeState& node, const TaskGroup& group);
/// Like RoomOf, on a node with these facts: counts only GPUs that the group accepts, and only of `model` if given.
std::int64_t RoomOn(const NodeFacts& facts, const NodeState& node, const TaskGroup& group,
                    std::optional<int> model = {});
/// GPUs of the node that have room for one of the shape's GPUs.
inline int FreeGpus(const NodeState& node, const Shape& shape) {
  const bool is_plain = shape.is_whole() && shape.gpu_memory_mib == 0;
  return is_plain ? node.whole : placement::CountFitting(node, shape);
}
inline bool IsAccepted(const NodeFacts& facts, const Shape& shape) {
  return ((shape.models >> facts.node_class) & 1) != 0;
}
inline bool IsSingle(const ResourceRequest& request) {
  return request.groups.size() == 1 && request.groups.front().least == 1;
}
bool NeedsTopology(const ResourceRequest& request, const Shape& shape);
GpuSet WholeFreeOf(const NodeState& node);

class JobPerspective {
 public:
  JobPerspective(ClusterState& state, Seeker seeker, Time now);
  ~JobPerspective();
  JobPerspective(const JobPerspective&) = delete;
  JobPerspective& operator=(const JobPerspective&) = delete;

  const ClusterState& state() const { return state_; }
  const Seeker& seeker() const { return seeker_; }
  const Key& order() const { return order_; }
  Time now() const { return now_; }

  bool IsBarred() const;
  /// Entries with a reservation that come before this job.
  const std::vector<JobId>& before() const { return before_; }
  /// Returns whether the slot's entry comes before this job.
  bool IsBefore(const ReservationSlot& slot) const;
  /// The part of a cap that is unused but reserved for jobs before this one.
  CapUse KeptOf(CapIndex cap) const;
  /// The same for the limits and quotas of its teams.
  KeptOfTeams KeptOfItsTeams() const;
  /// Under strict queue order, the blocked job that comes before this one.
  std::optional<JobId> BlockedBefore() const;
  /// A node where it would start now, for the first of its tasks; nothing if there is no room.
  std::optional<NodeIndex> Room();
  /// IsBarred, Room and BlockedBefore together: the node where it would start now, if it would.
  std::optional<NodeIndex> WouldStart();

  /// Returns whether `reserved` blocks resources for this job, now or before the job would end.
  bool Binds(const ReservedCapacity& reserved) const;

 private:
  struct Lifted {
    NodeIndex node = 0;
    std::vector<ReservedCapacity> reserved;
  };
  void Lift(const ReservationSlot& slot);
  Time Until() const;
  std::optional<NodeIndex> RoomForOne();
  std::optional<NodeIndex> RoomForGang();
  bool IsCountable() const;
  bool FitsUnheld() const;
  std::vector<NodeIndex> GangScope() const;
  bool HasTopology(const Node& node, const Shape& shape);

  ClusterState& state_;
  Seeker seeker_;
  Time now_;
  Key order_;
  std::vector<Lifted> lifted_;
  std::vector<JobId> before_;  // Entries with a reservation that come before this job.
  struct Joined {
    const GpuTopology* topology;
    GpuSet idle;
    int gpus;
    bool is_there;
  };
  std::vector<Joined> joined_;  // Cached topology searches; similar nodes repeat.
};

}  // namespace divvy::core
