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

/// Adds to `plan` the preemptions that the rules demand, and applies them. Costs nothing if there is nothing to do.
void Preempt(ClusterState& state, Time now, Plan& plan);

/// Lets elastic jobs use their new places once their migrated placements have left, and drops reservations for jobs
/// that are gone.
void SettleMoves(ClusterState& state, Time now, Plan& plan);

/// The job was told to release these placements.
void MarkLeaving(ClusterState& state, JobId id, const std::vector<TaskPlacement>& placements);
/// A migrated job is queued again: the resources held for it become its nomination. Nothing if it was not migrated.
void ResumeMoved(ClusterState& state, JobId id, Time now);

/// Returns whether the nominated resources are free or will be once leaving jobs have left.
bool NominationHolds(const ClusterState& state, const ReservationSlot& slot);
/// Returns whether they are free now: the job can start there, whatever other jobs have reserved.
bool NominationIsFree(const ClusterState& state, const ReservationSlot& slot);

}  // namespace divvy::core
