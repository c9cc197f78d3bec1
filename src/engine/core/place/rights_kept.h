// What jobs further ahead are promised of caps, of teams' limits and of quotas: a job that would run beyond their start
// leaves it to them, as it leaves them the GPUs. And whether what keeps a promised job back now will be gone by its
// start.
#pragma once

#include <functional>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Which promises are before the job in question.
using IsBefore = std::function<bool(const PromiseSlot&)>;

/// A cap's part of what they are to hold before `until`.
CapUse KeptOfCap(const Cluster::State& state, CapIndex cap, Time until, const IsBefore& is_before);

struct KeptOfTeams {
  TeamUse all;
  TeamUse firm;
};
/// Likewise of teams; what drains counts whatever `until` is. A claim is not counted: what it waits for leaves the same
/// teams, or is within its own right.
KeptOfTeams KeptByTeam(const Cluster::State& state, Time until, const IsBefore& is_before);

/// The team's limits, and for a firm job its quotas, have room for `parts` more beside what runs and what is kept.
bool TeamsHaveRoom(const Teams& teams, TeamIndex team, bool is_firm, std::int64_t parts, const KeptOfTeams& kept = {});

/// Everybody who has a promise.
inline bool IsAnybody(const PromiseSlot&) { return true; }

/// Its caps and teams will have room for the class from `at` to `until`, going by limits and predictions: what will
/// have ended by `at` is not counted, what is kept for those before it is.
bool HasRightsAt(const Cluster::State& state, ClassIndex job_class, Time at, Time until, const IsBefore& is_before);

}  // namespace divvy::core
