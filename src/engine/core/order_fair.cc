// Level by level from the top: the team that is below its quota, then the one that holds least of its share, then the
// one that would with its first job more, then the one whose first job is smaller; then who used least lately; inside
// the team priority and small-first, or the longest wait.
// Source: the order of Run:ai's queues; the comparison by levels is that of Slurm's Fair Tree.
#include <algorithm>

#include "engine/core/order.h"

namespace divvy::core {
namespace {

/// Levels of the tree that are compared; deeper ones by their usage alone.
constexpr std::size_t kLevels = 3;

}  // namespace

void RankFair(const Rules& rules, const Teams& teams, const Standing& standing, Time now, std::int64_t* rank) {
  const std::vector<TeamIndex> path = teams.PathOf(standing.team);
  for (std::size_t level = 0; level < std::min(path.size(), kLevels); ++level) {
    rank[level] = teams.Satisfaction(path[level], standing.front_milli);
  }
  rank[kLevels] = static_cast<std::int64_t>(std::min(teams.usage(standing.team, now), 9e15));
  if (rules.fair_is_fifo) {
    RankFifo(standing, rank + kLevels + 1);
  } else {
    RankSmallFirst(rules, standing, now, rank + kLevels + 1);
  }
}

}  // namespace divvy::core
