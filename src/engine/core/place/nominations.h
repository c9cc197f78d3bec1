// Nominations: resources preempted for a job stay reserved for it until they are free and it starts.
#pragma once

#include <utility>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Returns the reservation of the waiting job or array `entry`; null if it has none.
const ReservationSlot* SlotOf(const ClusterState& state, JobId entry);

/// Returns the resources on one node that are reserved when `placed` is nominated for the waiting job `entry`, that is,
/// preempted for it.
ReservedCapacity NominatedCapacity(JobId entry, const Shape& shape, const TaskPlacement& placed, Time now);

/// Adds a reservation of a waiting job, at the job's position in the queue.
void InsertSlot(ClusterState& state, ReservationSlot slot);

/// Reserves `place` for a waiting job as its nomination: running jobs are preempted there for it. This replaces its
/// reservation, if it has one, whose resources must have been released before (LiftedCapacity). `start`: when `place`
/// will be free; kNever: unknown.
void Nominate(ClusterState& state, Time now, const Key& key, ClassIndex job_class, JobId entry,
              std::vector<TaskPlacement> place, Time start);

/// Lifts the reserved capacity of a job's own reservation during the lifetime of this object, so that it does not block
/// the job.
class LiftedCapacity {
 public:
  LiftedCapacity(ClusterState& state, JobId entry);
  ~LiftedCapacity();
  /// Makes the destructor not restore the reserved capacity that was lifted.
  void Forget() { lifted_.clear(); }
  LiftedCapacity(const LiftedCapacity&) = delete;
  LiftedCapacity& operator=(const LiftedCapacity&) = delete;

 private:
  void Settle(NodeIndex node);
  ClusterState& state_;
  std::vector<std::pair<NodeIndex, ReservedCapacity>> lifted_;
};

}  // namespace divvy::core
