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
/// Returns the request, class and queue position of a waiting job.
Seeker SeekerOf(const ClusterState& state, JobId entry);
Key OrderOf(const ClusterState& state, const Seeker& seeker, Time now);

/// Returns true if the limit of a group or user, or the limit or quota of a team, blocks a job with this request and
/// class even if all GPUs were free.
bool IsBarred(const ClusterState& state, const ResourceRequest& request, const ClassKey& key);

/// Returns how many tasks of `shape` fit on a node with this free room.
std::int64_t RoomOf(const NodeState& node, const Shape& shape);
/// Returns how many tasks of the group fit on a node with this free room, with the alternative of which most fit.
std::int64_t RoomOf(const NodeState& node, const TaskGroup& group);
/// Returns how many tasks of the group fit on a node with these facts and this free room. Counts only GPUs that the
/// group accepts, and only those of `model` if given.
std::int64_t RoomOn(const NodeFacts& facts, const NodeState& node, const TaskGroup& group,
                    std::optional<int> model = {});
/// Returns how many GPUs of the node have room for what `shape` needs on one GPU.
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
  /// The waiting jobs that have a reservation and come before this job.
  const std::vector<JobId>& before() const { return before_; }
  /// Returns true if the waiting job that has this reservation comes before the job of this view.
  bool IsBefore(const ReservationSlot& slot) const;
  /// Returns how much of a limit on running jobs is not used but reserved for jobs before this one.
  CapUse KeptOf(CapIndex cap) const;
  /// Returns how much of the limits and quotas of this job's teams is not used but reserved for jobs before this one.
  KeptOfTeams KeptOfItsTeams() const;
  /// Returns the blocked job before this one that keeps it from starting because the queue order is strict; nullopt if
  /// there is none.
  std::optional<JobId> BlockedBefore() const;
  /// Returns the node on which the first task of this job would start now; nullopt if there is no room.
  std::optional<NodeIndex> Room();
  /// Returns the node on which this job would start now; nullopt if it would not, because of limits (IsBarred), room
  /// (Room) or queue order (BlockedBefore).
  std::optional<NodeIndex> WouldStart();

  /// Returns true if this job may not use the resources `reserved`, because the reservation begins before this job
  /// would end.
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
