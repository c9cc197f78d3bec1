// Compares teams level by level from the top. At each level: the team below its quota; then the team with the least
// worth relative to its share (a GPU on which a job runs at 0.55 of its speed is worth 0.55: Gavel, OSDI 2020, compares
// effective throughput); then higher priority; then the lowest such ratio with its first job added; then the smaller
// first job. Ties go to the team with the least recent usage. Inside a team: priority and small-first, or the longest
// wait.
// Source: the order of Run:ai's queues; the comparison by levels is that of Slurm's Fair Tree.
#include <algorithm>

#include "engine/core/state/order.h"

namespace divvy::core {
namespace {

/// Tree levels that are compared; deeper levels are not, only their usage.
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
