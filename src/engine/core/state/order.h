// A job's position in the queue as a key: smaller keys are considered first. A policy computes the key from the job,
// its class and its team; keys compare without knowing the policy.
//
// Inside one class, keys have the same order as the class's queue (priority, since, id), so a scheduling cycle needs to
// look only at the head of each class.
#pragma once

#include <array>
#include <compare>

#include "engine/class_queue.h"
#include "engine/core/state/rules.h"
#include "engine/core/state/teams.h"

namespace divvy::core {

struct Key {
  std::array<std::int64_t, 9> rank{};  // The first element is the pool's.
  JobId id;
  friend auto operator<=>(const Key&, const Key&) = default;
};

/// The inputs of a queue policy.
struct Standing {
  Place place;
  std::int64_t gpu_parts = 0;  // GPU parts of the minimum number of tasks.
  Duration predicted{0};       // 0: unknown.
  TeamIndex team = kRootTeam;
  std::int64_t front_parts = 0;  // GPU parts of the first job of the team; teams are compared by it.
  PoolIndex pool = kWholeCluster;
  bool is_limited = false;  // It has a time limit.
};

/// Returns true if a job that waits since `since` has waited so long that smaller jobs no longer go first.
bool IsEscalated(const PoolRules& rules, Time since, Time now);
/// Returns when the job will have waited so long that smaller jobs no longer go first; kNever if that is never so.
Time EscalatesAt(const PoolRules& rules, Time since);

/// Returns the queue position of a waiting job as a key; jobs with smaller keys are considered first. `rules`: those of
/// the job's pool. Jobs of different pools are ordered by the pools' tiers, then by pool index, which matters only if
/// pools share nodes.
Key KeyOf(const PoolRules& rules, const Teams& teams, const Standing& standing, Time now);

// The policies; each has a file of its own.
void RankSmallFirst(const PoolRules& rules, const Standing& standing, Time now, std::int64_t* rank);
void RankFifo(const Standing& standing, std::int64_t* rank);
void RankShortest(const PoolRules& rules, const Standing& standing, Time now, std::int64_t* rank);
/// Returns when a job without a time limit has waited so long that it goes first under the policy kShortest; kNever if
/// never.
Time ShortestEscalatesAt(const PoolRules& rules, const Standing& standing);
/// For kFair, kTeamRanks ranks after the first kPoolRanks are the same for all jobs of a team.
inline constexpr std::size_t kPoolRanks = 1;
inline constexpr std::size_t kTeamRanks = 4;
void RankTeam(const Teams& teams, TeamIndex team, std::int64_t front_parts, Time now, std::int64_t* rank);
void RankFair(const PoolRules& rules, const Teams& teams, const Standing& standing, Time now, std::int64_t* rank);

}  // namespace divvy::core
