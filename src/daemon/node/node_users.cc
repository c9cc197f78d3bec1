#include "daemon/node/node_users.h"

#include <unistd.h>

namespace divvy {

std::optional<User> NodeUsers::UserHere(const User& user) const {
  if (!options_.may_change_user || !options_.find_user) return user;
  return options_.find_user(user.name);
}

Result<User> NodeUsers::CheckUser(const User& user) const {
  if (!options_.may_change_user) return User{-1, -1, user.name};
  const auto here = UserHere(user);
  if (!here) {
    return NotFound("node " + options_.names.name() + " has no user " + user.name +
                    "; create the account there, or exclude the node with --exclude");
  }
  const Status may = CheckUid(here->uid, options_.lowest_uid, true);
  if (options_.errands && !may) return PermissionDenied("node " + options_.names.name() + ": " + may.error().message);
  if (here->uid != 0 || options_.runs_root_jobs) return *here;
  return PermissionDenied("node " + options_.names.name() +
                          " does not run jobs as root; root_jobs = true under [jobs] in its divvy.toml allows it");
}

Result<User> NodeUsers::OwnerHere(const User& user) const {
  DIVVY_TRY(User here, CheckUser(user));
  if (here.uid < 0) here = {options_.uid, static_cast<std::int64_t>(::getegid()), user.name};
  return here;
}

std::optional<User> NodeUsers::OwnerOf(const RunRecord& run, const JobRecord* job) const {
  if (!options_.may_change_user) return User{options_.uid, run.gid, ""};
  if (run.uid >= 0 && run.gid >= 0) return User{run.uid, run.gid, ""};
  const auto here = job == nullptr ? std::nullopt : UserHere(job->user);
  return here && (run.uid < 0 || run.uid == here->uid) ? here : std::nullopt;
}

UserWithRight NodeUsers::WithRight(const User& user) const {
  UserWithRight with{user.uid, user.gid, {}};
  if (options_.right_of) with.right = options_.right_of(user);
  return with;
}

std::string NodeUsers::MissingRight(const User& user) const {
  const bool is_agents = options_.lease.is_set();
  return "divvy may not run jobs as " + user.name + " on " + options_.names.name() + " yet: " + user.name +
         " allows it by running any divvy command " + (is_agents ? "on the controller's node" : "there") +
         ", such as divvy status; then submit the job again";
}

std::string NodeUsers::RefusedRight(const User& user) const {
  if (!options_.lease.is_set()) return MissingRight(user);
  const std::string& node = options_.names.name();
  return "the launcher of " + node + " does not accept the permission to run jobs as " + user.name +
         " that the controller has sent; if the key of the controller's launcher has changed, run divvy agent --stop "
         "and divvy agent --join with a new token, as root on " +
         node;
}

}  // namespace divvy
