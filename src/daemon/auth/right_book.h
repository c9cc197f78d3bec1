// The rights to run jobs as users that the launcher has given this daemon (platform/users/user_right.h), kept in the
// store: a job that starts after a restart needs its user's.
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

class RightBook {
 public:
  struct Ports {
    std::function<Result<UserRight>(int connection)> ask;                     // RootErrands::RightOf.
    std::function<Result<UserRight>(const UserWithRight& user)> ask_by_name;  // RootErrands::RightByName.
    std::function<void(const std::string& key, std::string text)> keep;
    std::function<void(const std::string& line)> note;
  };

  /// A row of the store; false: it is no right.
  bool LoadSetting(std::string_view key, std::string_view text);
  void SetPorts(Ports ports) { ports_ = std::move(ports); }

  /// A process of this user has connected. Asks the launcher once for each user and life of the daemon, which also
  /// mends what a launcher with a new key would refuse.
  void Learn(int connection, std::int64_t uid, std::int64_t gid);
  /// None where that user has never called divvy here.
  UserRight Of(const User& user) const;
  /// The right by name as RightText, for the machines of agents; empty where there is none. Asks the launcher once for
  /// each user and life of the daemon.
  std::string ByName(const User& user);

 private:
  using Numbers = std::pair<std::int64_t, std::int64_t>;
  Ports ports_;
  std::map<Numbers, UserRight> rights_;
  std::set<Numbers> asked_;
  std::map<std::pair<Numbers, std::string>, std::string> by_name_;  // A number may be given to another name.
};

}  // namespace divvy
