// The place of a job in the queue as a key: smaller is looked at first. A policy fills the key from what is known of
// the job, its class and its team; two keys compare without knowing the policy.
//
// Inside one class the keys are in the order of the class's line (priority, since, id), which is what lets a pass look
// at the heads alone.
#pragma once

#include <array>
#include <compare>

#include "engine/core/state/rules.h"
#include "engine/core/state/teams.h"
#include "engine/line.h"

namespace divvy::core {

struct Key {
  std::array<std::int64_t, 9> rank{};  // The first is its pool's.
  JobId id;
  friend auto operator<=>(const Key&, const Key&) = default;
};

/// What an order may look at.
struct Standing {
  Place place;
  std::int64_t gpu_parts = 0;  // The least it starts with.
  Duration predicted{0};       // 0: not known.
  TeamIndex team = kRootTeam;
  std::int64_t front_parts = 0;  // Of the first of its team, whoever that is: teams compare by it.
  PoolIndex pool = kWholeCluster;
};

/// Waits so long that smaller jobs no longer pass it.
bool IsEscalated(const PoolRules& rules, Time since, Time now);
/// When it becomes so; kNever where it never does.
Time EscalatesAt(const PoolRules& rules, Time since);

/// Pools do not compete but where they share nodes: there by tier, then by their order. `rules`: those of its pool.
Key KeyOf(const PoolRules& rules, const Teams& teams, const Standing& standing, Time now);

// The orders, each in a file of its own.
void RankSmallFirst(const PoolRules& rules, const Standing& standing, Time now, std::int64_t* rank);
void RankFifo(const Standing& standing, std::int64_t* rank);
void RankShortest(const PoolRules& rules, const Standing& standing, std::int64_t* rank);
/// kFair: from kPoolRanks on so much of a rank is the same for all jobs of a team.
inline constexpr std::size_t kPoolRanks = 1;
inline constexpr std::size_t kTeamRanks = 4;
void RankTeam(const Teams& teams, TeamIndex team, std::int64_t front_parts, Time now, std::int64_t* rank);
void RankFair(const PoolRules& rules, const Teams& teams, const Standing& standing, Time now, std::int64_t* rank);

}  // namespace divvy::core
