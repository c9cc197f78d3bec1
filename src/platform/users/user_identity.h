// What the system's name service knows of a user: the account's name, and its groups.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace divvy {

/// The name and first group of the account with this number; nothing: there is none.
struct AccountName {
  std::string name;
  std::int64_t gid = -1;
};
std::optional<AccountName> AccountNameOf(std::int64_t uid);

/// True if `group` is the name of a group that `uid` is in: as the user's own group or as a further one. A uid without
/// a name is in `gid` alone. Asks anew each time, which may take as long as a network answers.
bool IsInGroup(uid_t uid, gid_t gid, const std::string& group);

/// Asked once per user and kept for a minute.
class UserGroups {
 public:
  /// The supplementary groups of `uid`, `gid` included. A uid without a name has `gid` alone.
  const std::vector<gid_t>& Of(uid_t uid, gid_t gid);

 private:
  struct Entry {
    std::vector<gid_t> groups;
    std::chrono::steady_clock::time_point read_at;
  };
  std::map<std::pair<uid_t, gid_t>, Entry> entries_;
};

}  // namespace divvy
