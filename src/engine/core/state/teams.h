// The team tree: what each team runs, waits for and is entitled to. All amounts are in parts of GPUs.
//
// Quotas, limits and shares count GPUs. Satisfaction counts what the GPUs are worth to the team's jobs (GpuUse), as in
// max-min fairness over GPUs of different speeds. Without known speeds both are the same.
//
// The cluster is divided level by level (engine/shares.h, Divide): each team's quota first, then the surplus by weight,
// in whole GPUs. A team never runs more than its limit. Jobs that cannot be preempted ("firm") fit into the quota of
// their team and of every team above it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/core/state/resource_request.h"
#include "engine/shares.h"

namespace divvy::core {

/// The root of the tree, and the team of jobs without a team. Always present, without quota or limit.
inline constexpr TeamIndex kRootTeam = 0;

struct TeamSpec {
  std::string name;
  TeamIndex parent = kRootTeam;
  std::int64_t quota_parts = kNoBound;  // Guaranteed share; kNoBound: as much as it requests.
  std::int64_t limit_parts = kNoBound;
  std::uint64_t weight = 1;  // For dividing the surplus.
  int priority = 0;          // The surplus goes to the highest priority first; ties in Satisfaction are broken by it
                             // too.
};

/// Ten-thousandths of GPUs by team, each including its subtree. Missing entries are 0.
using TeamUse = std::vector<std::int64_t>;

class Teams {
 public:
  explicit Teams(Duration half_life) : half_life_(half_life) { Reset({}); }

  /// Replaces all teams. The amounts that their jobs use and wait for must be added again. specs[i] becomes team i + 1;
  /// parents precede their children.
  void Reset(std::vector<TeamSpec> specs);
  void SetCapacity(std::int64_t gpu_parts);

  std::size_t size() const { return teams_.size(); }
  const TeamSpec& spec(TeamIndex team) const { return teams_[team].spec; }
  /// Returns true if there are teams besides the root, so that shares and limits matter.
  bool has_rules() const { return teams_.size() > 1; }

  /// Adds to the GPUs that jobs of `team` and of all its ancestors use; negative amounts subtract. `is_firm`: the job
  /// may not be preempted.
  void AddRunning(TeamIndex team, GpuUse use, bool is_firm, Time now);
  void AddWaiting(TeamIndex team, std::int64_t parts);

  std::int64_t running(TeamIndex team) const { return teams_[team].running; }
  /// Returns the GPUs that the team's jobs use, like running(), weighted by the jobs' speeds.
  std::int64_t worth(TeamIndex team) const { return teams_[team].worth; }
  std::int64_t firm(TeamIndex team) const { return teams_[team].firm; }
  std::int64_t waiting(TeamIndex team) const { return teams_[team].waiting; }
  /// Returns the team's past usage, in ten-thousandths of GPU-seconds weighted by the jobs' speeds. Older usage counts
  /// less.
  double usage(TeamIndex team, Time now) const;
  /// Sets the team's past usage as of the time `at`; what its jobs use from then on is added.
  void SetUsage(TeamIndex team, double usage, Time at);

  /// Returns the first team, from `team` upwards, whose limit does not allow `parts` ten-thousandths of GPUs more than
  /// it runs and than is kept for it; kRootTeam if all limits allow it.
  TeamIndex OverLimit(TeamIndex team, std::int64_t parts, const TeamUse& kept = {}) const;
  /// Like OverLimit, for quotas: counts only jobs that may not be preempted.
  TeamIndex OverFirmQuota(TeamIndex team, std::int64_t parts, const TeamUse& kept = {}) const;

  /// Returns true if a limit or quota applies to both teams, because a common ancestor (or one team that is the other's
  /// ancestor) has one.
  bool ShareABound(TeamIndex a, TeamIndex b) const;

  /// Returns how many GPUs of the cluster, in ten-thousandths, are the team's fair share now, by the rules described
  /// above.
  std::int64_t FairShare(TeamIndex team) const;

  /// Returns the ancestors of `team` except the root, top-down, and `team` itself as the last.
  std::vector<TeamIndex> PathOf(TeamIndex team) const;
  /// Returns how well served a team is among its siblings, as a number; the team with the smaller one is served first.
  /// Compares in this order: teams below their quota first; the GPUs that it holds, weighted by its jobs' speeds,
  /// relative to its share (or its quota, if larger); priority; the same ratio if it held `parts` ten-thousandths of
  /// GPUs more; `parts`.
  std::int64_t Satisfaction(TeamIndex team, std::int64_t parts = 0) const;

 private:
  struct Team {
    TeamSpec spec;
    std::vector<TeamIndex> children;
    std::int64_t rank = 0;  // Rank by priority among its siblings; 0 is the highest priority.
    std::int64_t running = 0;
    std::int64_t worth = 0;
    std::int64_t firm = 0;
    std::int64_t waiting = 0;
    DecayedUsage usage{Duration(0)};
    Time counted_until = kNoTime;
    mutable std::int64_t share = 0;
  };
  void DivideShares() const;

  Duration half_life_;
  std::int64_t capacity_ = 0;
  std::vector<Team> teams_;
  mutable bool is_divided_ = false;
};

}  // namespace divvy::core
