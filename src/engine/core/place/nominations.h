// Nominations: resources preempted for a job stay reserved for it until they are free and it starts.
#pragma once

#include <utility>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Returns the reservation of `entry`; null if it has none.
const ReservationSlot* SlotOf(const ClusterState& state, JobId entry);

/// Returns the capacity that a nomination reserves for `placed`.
ReservedCapacity NominatedCapacity(JobId entry, const Shape& shape, const TaskPlacement& placed, Time now);

/// Inserts at the position of its key.
void InsertSlot(ClusterState& state, ReservationSlot slot);

/// Nominates `place` for a waiting job, replacing its reservation, whose reserved capacity must already be lifted
/// (LiftedCapacity). `start`: when `place` will be free; kNever: unknown.
void Nominate(ClusterState& state, Time now, const Key& key, ClassIndex job_class, JobId entry,
              std::vector<TaskPlacement> place, Time start);

/// Lifts the reserved capacity of a job's own reservation during the lifetime of this object, so that it does not block
/// the job.
class LiftedCapacity {
 public:
  LiftedCapacity(ClusterState& state, JobId entry);
  ~LiftedCapacity();
  /// Discards the lifted capacity instead of restoring it.
  void Forget() { lifted_.clear(); }
  LiftedCapacity(const LiftedCapacity&) = delete;
  LiftedCapacity& operator=(const LiftedCapacity&) = delete;

 private:
  void Settle(NodeIndex node);
  ClusterState& state_;
  std::vector<std::pair<NodeIndex, ReservedCapacity>> lifted_;
};

}  // namespace divvy::core
