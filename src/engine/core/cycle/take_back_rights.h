// Who may take from whom. Pure arithmetic on the teams' sums; knows nothing of places.
//
// Reclaim, at the level where the taker's and the victim's team part (children of their lowest common ancestor), with
// what was taken already counted as gone:
//   (a) the taker's team stays within its share and the victim's team holds more than its own before each job taken, or
//   (b) the taker's team stays within its quota and the victim's team holds more than its quota before each, or
//   (c) even with it the taker's team holds less of its share than the victim's team without what it loses.
// A team's share here is never less than its quota (or what it asks for of it): nobody is reclaimed from at or below
// what is theirs by right. Below that level the taker's teams stay within their shares as well. A taker that
// is not preemptible fits into the quota of every team above it; nobody exceeds a limit.
// Source: the conditions that KAI's reclaim action documents.
#pragma once

#include <map>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

/// What one job would lose.
struct Loss {
  TeamIndex team = kRootTeam;
  std::int64_t parts = 0;
  int priority = 0;
};

class Rights {
 public:
  /// What leaves counts as gone, what is claimed as running.
  explicit Rights(const Cluster::State& state);

  /// Whether the taker could have these, as far as teams and priorities go. `losses` may be empty: then only its own
  /// limits count.
  bool MayReclaim(ClassIndex taker, const std::vector<Loss>& losses) const;
  bool MayPreempt(ClassIndex taker, int priority, const std::vector<Loss>& losses) const;
  /// Limits and quotas of the taker's teams alone.
  bool FitsItsTeams(ClassIndex taker, const std::vector<Loss>& losses) const;

  /// A victim that no set could include is not looked at.
  bool IsReclaimable(ClassIndex taker, TeamIndex victim) const;
  /// How much of its share the victim's team holds, in thousandths, where its path leaves the taker's.
  std::int64_t Saturation(ClassIndex taker, TeamIndex victim) const;

 private:
  std::int64_t Share(TeamIndex team) const;
  std::int64_t Held(TeamIndex team) const { return state_.teams.running(team) + change_[team]; }
  bool IsAbove(TeamIndex ancestor, TeamIndex team) const;
  TeamIndex LevelOf(TeamIndex team, TeamIndex other) const;
  void Add(TeamIndex team, std::int64_t parts, bool is_firm);

  const Cluster::State& state_;
  std::vector<std::int64_t> change_;
  std::vector<std::int64_t> firm_change_;
};

}  // namespace divvy::core
