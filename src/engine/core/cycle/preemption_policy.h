// Rules on which jobs may preempt or reclaim from which. Pure arithmetic on team totals, independent of places.
//
// Reclaim compares two teams: the ancestors of the preemptor's and of the victim's team that are children of their
// lowest common ancestor. Jobs that are being preempted already count as gone. Reclaim is allowed if one of these holds
// for each victim's team:
//   (a) the preemptor's team stays within its share, and the victim's team holds more than its share before each of its
//       jobs is preempted;
//   (b) the same with quotas instead of shares;
//   (c) the victim's team holds more than its share as in (a), and the preemptor's team, with the new job, has a lower
//       ratio of usage to share than the victim's team without its victims.
// A team's share here is at least its quota (or its demand, if less), so nothing is reclaimed from a team at or below
// its quota. For (a) and (c), the preemptor's teams below that level must also stay within their shares. A preemptor
// that is not itself preemptible must fit into the quota of every team above it. No team exceeds its limit. Source: the
// conditions that KAI's reclaim action documents.
#pragma once

#include <map>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

/// The loss of one victim job.
struct Loss {
  TeamIndex team = kRootTeam;
  std::int64_t parts = 0;
  int priority = 0;
};

class PreemptionPolicy {
 public:
  /// Computes the usage of all teams as it will be: resources that jobs were told to release count as released, and
  /// resources that are kept for preemptors (nominated) as used by them.
  explicit PreemptionPolicy(const ClusterState& state);

  /// Returns whether the rules for teams and priorities allow a job of the class `preemptor` to take what `losses`
  /// lists from running jobs. If `losses` is empty, only the limits of its own teams are checked.
  bool MayReclaim(ClassIndex preemptor, const std::vector<Loss>& losses) const;
  bool MayPreempt(ClassIndex preemptor, int priority, const std::vector<Loss>& losses) const;
  /// Returns true if a job of the class `preemptor` stays within the limits and quotas of its teams after the victims'
  /// `losses`. Checks nothing else.
  bool FitsItsTeams(ClassIndex preemptor, const std::vector<Loss>& losses) const;

  /// Returns false if jobs of the team `victim` may never be preempted for the class `preemptor`, whatever the other
  /// victims are.
  bool IsReclaimable(ClassIndex preemptor, TeamIndex victim) const;
  /// Returns how much a team uses relative to its share, in thousandths. The team is `victim` or its ancestor: the one
  /// just below the closest common ancestor of the two teams.
  std::int64_t Saturation(ClassIndex preemptor, TeamIndex victim) const;

 private:
  std::int64_t Share(TeamIndex team) const;
  std::int64_t Held(TeamIndex team) const { return state_.teams.running(team) + change_[team]; }
  bool IsAbove(TeamIndex ancestor, TeamIndex team) const;
  TeamIndex LevelOf(TeamIndex team, TeamIndex other) const;
  void Add(TeamIndex team, std::int64_t parts, bool is_firm);

  const ClusterState& state_;
  std::vector<std::int64_t> change_;
  std::vector<std::int64_t> firm_change_;
};

}  // namespace divvy::core
