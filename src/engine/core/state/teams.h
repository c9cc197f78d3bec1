// Who pays: a tree of teams with what each runs, waits for and is entitled to. All in parts of GPU.
//
// Quotas, limits and shares are in whole GPUs. How well served a team is goes by what its GPUs are worth to its jobs
// (GpuUse), as max-min fairness over GPUs of different speeds has it; where no speeds are known that is the same.
//
// A team's share of the cluster is divided level by level (engine/shares.h, Divide): its quota by right, then the
// surplus by weight, in whole GPUs. A team never runs more than its limit, and what cannot be taken back ("firm": jobs
// that are not preemptible) fits into the quota of the team and of every team above it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "engine/core/state/ask.h"
#include "engine/shares.h"

namespace divvy::core {

/// The team of everybody who has none; always there, without quota or limit of its own.
inline constexpr TeamIndex kRootTeam = 0;

struct TeamSpec {
  std::string name;
  TeamIndex parent = kRootTeam;
  std::int64_t quota_parts = kNoBound;  // kNoBound: as much as it asks for.
  std::int64_t limit_parts = kNoBound;
  std::uint64_t weight = 1;  // Of the surplus.
  int priority = 0;          // The surplus goes to the highest first, and of equals it is served first.
};

/// Ten-thousandths of GPUs by team, each with those below it. Shorter than there are teams: 0 for the rest.
using TeamUse = std::vector<std::int64_t>;

class Teams {
 public:
  explicit Teams(Duration half_life) : half_life_(half_life) { Reset({}); }

  /// All teams anew; what runs and waits has to be added again. specs[i] becomes team i + 1; a parent comes before its
  /// children.
  void Reset(std::vector<TeamSpec> specs);
  void SetCapacity(std::int64_t gpu_parts);

  std::size_t size() const { return teams_.size(); }
  const TeamSpec& spec(TeamIndex team) const { return teams_[team].spec; }
  /// Some team has a quota, a limit or a weight: then order and entitlement mean something.
  bool has_rules() const { return teams_.size() > 1; }

  /// Of `team` and all above it. Negative amounts take back.
  void AddRunning(TeamIndex team, GpuUse use, bool is_firm, Time now);
  void AddWaiting(TeamIndex team, std::int64_t parts);

  std::int64_t running(TeamIndex team) const { return teams_[team].running; }
  /// The same at the speeds of its jobs.
  std::int64_t worth(TeamIndex team) const { return teams_[team].worth; }
  std::int64_t firm(TeamIndex team) const { return teams_[team].firm; }
  std::int64_t waiting(TeamIndex team) const { return teams_[team].waiting; }
  /// Parts of GPUs x seconds at the speeds of its jobs, decayed.
  double usage(TeamIndex team, Time now) const;
  /// It had used so much as of `at`; what it runs counts from then on.
  void SetUsage(TeamIndex team, double usage, Time at);

  /// The first team, from `team` upwards, whose limit has no room for `parts` more beside what runs and what is kept;
  /// kRootTeam: all have.
  TeamIndex OverLimit(TeamIndex team, std::int64_t parts, const TeamUse& kept = {}) const;
  /// The same of quotas, by what is firm.
  TeamIndex OverFirmQuota(TeamIndex team, std::int64_t parts, const TeamUse& kept = {}) const;

  /// A team that both belong to has a limit or a quota.
  bool ShareABound(TeamIndex a, TeamIndex b) const;

  /// What the team may hold of the cluster as it is, by the rule above.
  std::int64_t FairShare(TeamIndex team) const;

  /// From the top: the ancestors of `team` below the root, itself last.
  std::vector<TeamIndex> PathOf(TeamIndex team) const;
  /// How well served a team is among its siblings: teams below their quota first, then by what that which they hold is
  /// worth of their share (or of their quota, if that is more), then by priority, then by what they would hold with
  /// `parts` more, then by `parts`. Smaller is served first.
  std::int64_t Satisfaction(TeamIndex team, std::int64_t parts = 0) const;

 private:
  struct Team {
    TeamSpec spec;
    std::vector<TeamIndex> children;
    std::int64_t rank = 0;  // Among its siblings by priority: the highest has 0.
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
