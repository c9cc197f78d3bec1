// The rights to run jobs as certain users, which the launcher grants to this daemon (platform/users/user_right.h). They
// are kept in the store, because a job that starts after a restart needs its user's right.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "model/job_record.h"
#include "platform/supervisor/root_errand.h"

namespace divvy {

class UserRightCache {
 public:
  struct Ports {
    std::function<Result<UserRight>(int connection)> ask;                     // RootErrands::RightOf.
    std::function<Result<UserRight>(const UserWithRight& user)> ask_by_name;  // RootErrands::RightByName.
    std::function<void(const std::string& key, std::string text)> keep;
    std::function<void(const std::string& line)> note;
  };

  /// Loads a row of the store. Returns false if the row holds no right.
  bool LoadSetting(std::string_view key, std::string_view text);
  void SetPorts(Ports ports) { ports_ = std::move(ports); }

  /// Call when a process of this user has connected to the daemon. Gets the user's right from the launcher, once per
  /// user and daemon lifetime, and stores it. This also replaces a stored right that the launcher would refuse because
  /// its key has changed.
  void Learn(int connection, std::int64_t uid, std::int64_t gid);
  /// Returns an empty right if that user has never called divvy on this machine.
  UserRight Of(const User& user) const;
  /// Returns the signed right to run jobs as this user on the nodes of agents, in the format of RightText. It names the
  /// user, because uids differ between machines. Empty if the launcher gives no right for this user. A right is
  /// requested from the launcher only once.
  std::string ByName(const User& user);

 private:
  using Numbers = std::pair<std::int64_t, std::int64_t>;
  Ports ports_;
  std::map<Numbers, UserRight> rights_;
  std::set<Numbers> asked_;
  // The name is part of the key, because a uid may be reassigned to another name.
  std::map<std::pair<Numbers, std::string>, std::string> by_name_;
};

}  // namespace divvy
