// Teams: who may submit for which team, caps and budgets, and usage.
//
// Caps on running jobs are limits of groups named "team vision" and "user ada"; users' own groups cannot have such
// names. A job that may not start at all (blocked, budget exhausted) is treated like one with an unmet dependency whose
// text is the reason.
#include <algorithm>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "control/books/settings_text.h"
#include "control/controller/controller.h"

namespace divvy {

// --- Changes -----------------------------------------------------------------------------------------------------

// Re-adds all jobs to the cluster, because their groups may have changed. Only rare administrator actions call this.
void Controller::FollowTeams(Time now) {
  const bool is_told = teams_.Follow(now);
  for (const auto& [id, record] : jobs_.live()) {
    if (scheduler_.running(id) == nullptr) continue;
    RunningJob job = *scheduler_.running(id);
    job.groups = GroupsOf(record);
    scheduler_.Finish(id);
    scheduler_.Adopt(std::move(job));
  }
  teams_.budgets().Reset();
  WatchBudgets(now);
  PutAllAgain();
  if (is_told) reservations_.BookAnew(now);
  effects_.RequestPlan();
}

void Controller::WatchBudgets(Time now) {
  if (teams_.budgets().Watch(now)) PutAllAgain();
}

void Controller::PutAllAgain() {
  for (const auto& [id, record] : jobs_.live()) {
    if (scheduler_.waiting(id) != nullptr) PutWaiting(record);
  }
}

std::vector<GroupName> Controller::GroupsOf(const JobRecord& record) const {
  std::vector<GroupName> groups;
  if (!record.group.empty()) groups.push_back(record.group);
  if (record.array_count > 0 && record.array_at_once > 0) groups.push_back(ArrayGroupName(record.id));
  if (record.array.is_set()) groups.push_back(ArrayGroupName(record.array));
  for (GroupName& pool : PoolGroupsOf(record)) groups.push_back(std::move(pool));
  for (GroupName& group : teams_.GroupsOf(record)) groups.push_back(std::move(group));
  return groups;
}

Result<std::string> Controller::SetTeam(const TeamChange& change, const Caller& caller, Time now) {
  auto done = teams_.SetTeam(change, caller);
  if (done) FollowTeams(now);
  return done;
}

Result<std::string> Controller::RemoveTeam(const std::string& name, const Caller& caller, Time now) {
  auto done = teams_.RemoveTeam(name, caller, reservations_.registry());
  if (done) FollowTeams(now);
  return done;
}

Result<std::string> Controller::SetTeamUser(const UserChange& change, const Caller& caller, Time now) {
  auto done = teams_.SetTeamUser(change, caller);
  if (done) FollowTeams(now);
  return done;
}

Result<std::string> Controller::SetQuotas(bool are_on, const Caller& caller, Time now) {
  auto done = teams_.SetQuotas(are_on, caller);
  if (done) FollowTeams(now);
  return done;
}

}  // namespace divvy
