// Finds the earliest time at which a blocked job can start, and on which GPUs: its backfill reservation.
//
// Running jobs are assumed to end at their time limits, otherwise at their predicted ends. The ends are visited in
// order until the job fits, so the cost depends on the ends before its start. If no known end lets it start, an
// escalated job drains: it reserves GPUs that are free, or whose owners have run longest, as they become free. Source:
// EASY backfill (Lifka 1995; Mu'alem and Feitelson 2001), applied per GPU.
//
// GPUs that are kept without time limits are idle for an unknown time. Where many GPUs suit a job, other jobs lose more
// by that than it gains, so its reservation rests on time limits alone (MayWaitUnsurely).
#pragma once

#include <optional>

#include "engine/core/state/state.h"

namespace divvy::core {

/// The facts that a reservation may rest on. Each value includes those before it.
enum class ReservationBasis : std::uint8_t { kTimeLimits, kPredictions, kDraining };

/// Returns true if GPUs may be reserved for a job of the class although the job's start is not certain. That is allowed
/// if all running jobs have time limits, the job needs no GPU, few GPUs suit it, it needs at least half of those that
/// do, or it has waited for kWaitsUnsurelyAfter. Cost: O(nodes) after a change of the usable nodes, otherwise constant.
bool MayWaitUnsurely(const ClusterState& state, ClassIndex job_class, Time since, Time now);

/// Finds the earliest time and place at which a blocked job can start, without delaying any existing reservation.
/// Returns them as a backfill reservation; nullopt if there are none.
std::optional<BackfillReservation> Earliest(ClusterState& state, ClassIndex job_class, JobId entry, Time now,
                                            ReservationBasis basis);

/// For a job whose start cannot be predicted: returns a reservation of places for all its tasks, which are kept for it
/// as they become free. Places that other jobs have reserved are not used. Returns nullopt if there are no such places.
std::optional<BackfillReservation> DrainFor(const ClusterState& state, const ResourceRequest& request);
/// Returns whether a reservation that DrainFor made still holds: all its nodes accept jobs, and the reserved places
/// would fit there, together with everything else that is reserved, if no job ran.
bool DrainStands(const ClusterState& state, const ResourceRequest& request,
                 const std::vector<TaskPlacement>& placements);
/// Like DrainFor, but returns only places where fewer running jobs must end first than on the present places `than`.
/// `nodes`: the nodes that have changed.
std::optional<BackfillReservation> BetterDrain(const ClusterState& state, const ResourceRequest& request,
                                               const std::vector<NodeIndex>& nodes,
                                               const std::vector<TaskPlacement>& than);

/// Like Earliest, but searches only these nodes, and returns only a start before `before`. Meant for jobs of one task:
/// a job of several tasks is found only if all fit on one of these nodes.
std::optional<BackfillReservation> EarlierOn(ClusterState& state, ClassIndex job_class, JobId entry, Time now,
                                             const std::vector<NodeIndex>& nodes, Time before, ReservationBasis basis);

/// Returns true if `request` would fit on the nodes that take work if nothing ran there.
bool CouldRun(const ClusterState& state, const ResourceRequest& request);

}  // namespace divvy::core
