// The amounts of caps, team limits and quotas that are kept for reservations of jobs ahead. A job that would run past
// their start must leave these amounts to them, as it must leave the GPUs. Also checks whether whatever blocks a
// reserved job now will be gone by its start.
#pragma once

#include <functional>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Returns true for a reservation that has precedence over the job in question: its job is ahead in the queue.
using IsBefore = std::function<bool(const ReservationSlot&)>;

/// The part of a cap that is kept for reservations. Those count that start before `until` and for which `is_before`
/// returns true.
CapUse KeptOfCap(const ClusterState& state, CapIndex cap, Time until, const IsBefore& is_before);

struct KeptOfTeams {
  TeamUse all;
  TeamUse firm;
};
/// The same for teams' limits and quotas. Draining reservations count whenever they start; nominations do not: the
/// resources that they wait for come from the same teams, or the team is entitled to them.
KeptOfTeams KeptByTeam(const ClusterState& state, Time until, const IsBefore& is_before);

/// Returns whether the team's limits, and for a firm job its quotas, have room for `parts` more on top of running and
/// kept amounts.
bool TeamsHaveRoom(const Teams& teams, TeamIndex team, bool is_firm, std::int64_t parts, const KeptOfTeams& kept = {});

/// Gives every reservation precedence.
inline bool IsAnybody(const ReservationSlot&) { return true; }

/// Returns whether caps and teams will have room for a job of the class from `at` to `until`. Jobs expected to end by
/// `at` do not count; reservations with precedence (`is_before`) do.
bool HasRightsAt(const ClusterState& state, ClassIndex job_class, Time at, Time until, const IsBefore& is_before);

/// Returns how many parts a running job may grow by within these caps. Amounts reserved for other jobs are not
/// available to it. kNoBound: no cap limits GPUs.
std::int64_t RoomToGrow(const ClusterState& state, const std::vector<CapIndex>& caps);

/// A running job's loss: its caps are charged this many parts less.
struct CapLoss {
  ClassIndex job_class = 0;
  std::int64_t parts = 0;
};
/// Returns whether the caps have room for one job of the class, assuming that leaving jobs have left, nominated jobs
/// have started, and `losses` have happened.
bool FitsItsCaps(const ClusterState& state, ClassIndex job_class, const std::vector<CapLoss>& losses = {});

}  // namespace divvy::core
