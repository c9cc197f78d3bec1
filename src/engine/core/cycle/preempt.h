// Preemption: a blocked job that is entitled to it may take resources from running jobs.
//
//   move      a job that can be paused and resumed is migrated, so that a preemptible job fits
//   reclaim   between teams: from a team above its share, for one that stays within its own (preemption_policy.h)
//   preempt   within one team: from strictly lower priority
//
// From mild to severe: resources that are about to be free anyway, migration, an elastic job's surplus, whole jobs. The
// cheapest set of victims is chosen (preempt_search.h). Nothing is taken unless the whole preemptor then starts.
// Preempted resources stay nominated for the preemptor (ReservationSlot) until its victims have left, so that no other
// job starts there and no second preemption follows. Victims keep their placements until the caller reports Finish or
// GiveBack; the caller requeues them.
#pragma once

#include "engine/core/state/state.h"

namespace divvy::core {

/// Jobs for which victims are searched in one decision; the remaining ones follow in the next decision.
inline constexpr int kMostPreemptors = 32;

/// Adds to `plan` the preemptions that the rules demand, and applies them to `state`. Cheap if there are none.
void Preempt(ClusterState& state, Time now, Plan& plan);

/// Lets elastic jobs use the places to which some of their tasks were moved, once the tasks have left the old ones.
/// Drops the reservations of such places for jobs that have ended.
void SettleMoves(ClusterState& state, Time now, Plan& plan);

/// Marks these placements as leaving: the running job was told to release them.
void MarkLeaving(ClusterState& state, JobId id, const std::vector<TaskPlacement>& placements);
/// Called when a job that is moved to another place is queued again. The resources that were reserved for it there are
/// nominated: it starts on them next. Has no effect if the job is not being moved.
void ResumeMoved(ClusterState& state, JobId id, Time now);

/// Returns true if the resources that were preempted for a waiting job (its nomination, in `slot`) are free, or will be
/// once the jobs that were told to leave have left.
bool NominationHolds(const ClusterState& state, const ReservationSlot& slot);
/// Returns true if the resources that were preempted for a waiting job (its nomination, in `slot`) are free now, so
/// that the job can start there, whatever other jobs have reserved.
bool NominationIsFree(const ClusterState& state, const ReservationSlot& slot);

}  // namespace divvy::core
