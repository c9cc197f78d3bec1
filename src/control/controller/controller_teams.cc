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

void Controller::FollowTeams(Time now) {
  const bool is_told = teams_.Follow(now);
  feed_.FollowTeams(now);
  if (is_told) reservations_.BookAnew(now);
  effects_.RequestPlan();
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
