// Level by level from the top: the team that is below its quota, then the one that holds least of its share (a GPU on
// which a job is at 0.55 of its speed counts as 0.55: Gavel, OSDI 2020, compares effective throughput), then the one of
// higher priority, then the one that would hold least with its first job more, then the one whose first job is smaller;
// then who used least lately; inside the team priority and small-first, or the longest wait.
// Source: the order of Run:ai's queues; the comparison by levels is that of Slurm's Fair Tree.
#include <algorithm>

#include "engine/core/state/order.h"

namespace divvy::core {
namespace {

/// Levels of the tree that are compared; deeper ones by their usage alone.
constexpr std::size_t kLevels = kTeamRanks - 1;

}  // namespace

void RankTeam(const Teams& teams, TeamIndex team, std::int64_t front_parts, Time now, std::int64_t* rank) {
  const std::vector<TeamIndex> path = teams.PathOf(team);
  for (std::size_t level = 0; level < std::min(path.size(), kLevels); ++level) {
    rank[level] = teams.Satisfaction(path[level], front_parts);
  }
  rank[kLevels] = static_cast<std::int64_t>(std::min(teams.usage(team, now), 9e15));
}

void RankFair(const PoolRules& rules, const Teams& teams, const Standing& standing, Time now, std::int64_t* rank) {
  RankTeam(teams, standing.team, standing.front_parts, now, rank);
  if (rules.fair_is_fifo) {
    RankFifo(standing, rank + kTeamRanks);
  } else {
    RankSmallFirst(rules, standing, now, rank + kTeamRanks);
  }
}

}  // namespace divvy::core
