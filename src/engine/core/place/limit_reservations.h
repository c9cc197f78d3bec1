// The amounts of caps, team limits and quotas that are kept for reservations of jobs ahead. A job that would run past
// their start must leave these amounts to them, as it must leave the GPUs. Also checks whether whatever blocks a
// reserved job now will be gone by its start.
#pragma once

#include <functional>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Function that returns true for a reservation that has precedence over the job in question, because the job that it
/// is for is ahead in the queue.
using IsBefore = std::function<bool(const ReservationSlot&)>;

/// Returns how much of the limit `cap` on running jobs is kept for jobs with reservations. Counts reservations that
/// start before `until` and for which `is_before` returns true.
CapUse KeptOfCap(const ClusterState& state, CapIndex cap, Time until, const IsBefore& is_before);

struct KeptOfTeams {
  TeamUse all;
  TeamUse firm;
};
/// Returns how much of the limits and quotas of teams is kept for jobs with reservations, chosen as in KeptOfCap. A
/// reservation without a known start always counts. Resources preempted for a job (nominations) never count: they come
/// from the same teams, or the team is entitled to them.
KeptOfTeams KeptByTeam(const ClusterState& state, Time until, const IsBefore& is_before);

/// Returns true if the limits of the team and its ancestors allow `parts` ten-thousandths of GPUs more than what runs
/// and is kept. For a job that may not be preempted (`is_firm`), their quotas must allow it too.
bool TeamsHaveRoom(const Teams& teams, TeamIndex team, bool is_firm, std::int64_t parts, const KeptOfTeams& kept = {});

/// An IsBefore function that gives every reservation precedence.
inline bool IsAnybody(const ReservationSlot&) { return true; }

/// Returns true if all limits on running jobs and teams will allow a job of the class from `at` to `until`. Jobs
/// expected to end by `at` do not count; reservations with precedence (`is_before`) do.
bool HasRightsAt(const ClusterState& state, ClassIndex job_class, Time at, Time until, const IsBefore& is_before);

/// Returns by how many ten-thousandths of GPUs a running job may grow within these limits. Amounts that are reserved
/// for other jobs are not available to it. kNoBound: none of the limits is on GPUs.
std::int64_t RoomToGrow(const ClusterState& state, const std::vector<CapIndex>& caps);

/// A running job's loss: its caps are charged this many parts less.
struct CapLoss {
  ClassIndex job_class = 0;
  std::int64_t parts = 0;
};
/// Returns true if the limits on running jobs allow one more job of the class. Assumes that jobs that were told to
/// leave have left, that jobs for which others were preempted have started, and that `losses` have happened.
bool FitsItsCaps(const ClusterState& state, ClassIndex job_class, const std::vector<CapLoss>& losses = {});

}  // namespace divvy::core
