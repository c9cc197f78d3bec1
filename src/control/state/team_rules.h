// Teams: who may submit for which team, limits on running and queued jobs, and the team tree of the scheduler. Budgets
// are in BudgetTracker.
//
// Limits on running jobs are limits of groups named "team vision" and "user ada"; users' own groups cannot have such
// names. A job that may not start at all (blocked, budget exhausted) is treated like one with an unmet dependency whose
// text is the reason.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/pool_registry.h"
#include "control/books/reservation_registry.h"
#include "control/books/team_registry.h"
#include "control/state/budget_tracker.h"
#include "engine/scheduler/scheduler.h"
#include "model/job.h"

namespace divvy {

class TeamRules {
 public:
  /// The current load of a team (including its subtree) or a user, and its usage in its budget's period.
  struct TeamLoad {
    std::int64_t running = 0;  // Jobs.
    std::int64_t queued = 0;
    double gpus = 0;
    Used used;
  };

  TeamRules(Scheduler& scheduler, const JobTable& jobs, EffectRecorder& effects, const NodeTable& nodes)
      : scheduler_(scheduler), jobs_(jobs), effects_(effects), budgets_(scheduler, jobs, effects, nodes, teams_) {}

  Status UseTeamsFile(const TeamsFile& file) { return teams_.AddFile(file); }
  bool LoadSetting(const std::string& key, const std::string& text);
  /// Applies the loaded teams. Call it after all settings and jobs are loaded.
  void LoadTeams(const PoolRegistry& pools);
  /// Restores the scheduler's record of the teams' recent usage. Call after the jobs are in the scheduler.
  void LoadTeamUsage();
  const TeamRegistry& registry() const { return teams_; }
  const std::vector<std::string>& warnings() const { return team_warnings_; }
  BudgetTracker& budgets() { return budgets_; }
  const BudgetTracker& budgets() const { return budgets_; }

  // --- Changes: see Controller. The caller then calls Follow, and updates all jobs -----------------------------

  Result<std::string> SetTeam(const TeamChange& change, const Caller& caller);
  Result<std::string> RemoveTeam(const std::string& name, const Caller& caller,
                                 const ReservationRegistry& reservations);
  Result<std::string> SetTeamUser(const UserChange& change, const Caller& caller);
  Result<std::string> SetQuotas(bool are_on, const Caller& caller);
  /// Passes the teams and their limits on to the scheduler. Returns whether the team tree changed: the scheduler has
  /// then dropped its reservations.
  bool Follow(Time now);

  // --- Jobs ----------------------------------------------------------------------------------------------------

  std::vector<const TeamRow*> TeamsOf(const JobRecord& record) const { return teams_.PathOf(record.team); }
  /// Returns the groups of the job's team and user, whose limits apply to it.
  std::vector<GroupName> GroupsOf(const JobRecord& record) const;
  /// Fails if the group name that a user chose for a new or changed job has a reserved prefix, such as "team ". divvy
  /// uses groups with these prefixes internally, for the limits of teams, users, pools and arrays.
  static Status CheckGroupName(const std::string& group);
  /// Fills in the job's team. Changes nothing on failure.
  Status CheckTeam(JobSpec& spec, std::uint64_t elements, const Caller& caller, Time now) const;
  /// Fails if the request exceeds what the user may ever hold at once.
  Status CheckUserGpus(const std::string& user, const Request& request) const;
  /// Returns why the job's team keeps it from starting even if all GPUs were free, as text of an unmet dependency;
  /// empty if it does not.
  std::string TeamBar(const JobRecord& record) const;
  /// Applies the limits of the default user "*" to the job's user, if that user has none of their own. They apply to
  /// each user separately.
  void KnowUserCap(const JobRecord& record);

  // --- Usage ---------------------------------------------------------------------------------------------------

  std::map<std::string, TeamLoad> TeamLoads(Time now) const;                            ///< See Controller.
  std::optional<std::pair<std::string, std::string>> TeamUsageSetting(Time now) const;  ///< See Controller.
  /// Writes the recent usage of teams (TeamUsageSetting) to the store every few minutes.
  void KeepTeamUsage(Time now);

 private:
  /// Checks that the caller may change this user's settings: administrators, and users who lead all teams of the user.
  Status CheckMaySetUser(const UserChange& change, const Caller& caller) const;
  Status CheckQueued(const JobSpec& spec, std::uint64_t elements, const Caller& caller) const;
  bool TellTeams(Time now);
  void SetTeamCaps();

  Scheduler& scheduler_;
  const JobTable& jobs_;
  EffectRecorder& effects_;
  TeamRegistry teams_;
  BudgetTracker budgets_;
  std::set<std::string> team_caps_;  // Groups whose limits come from teams and users.
  std::vector<std::string> team_warnings_;
  std::string told_teams_;     // The team tree that the engine knows, as text.
  std::string team_usage_;     // As persisted.
  Time next_usage_ = kNoTime;  // When it must be persisted again.
};

}  // namespace divvy
