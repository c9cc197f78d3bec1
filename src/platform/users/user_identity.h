// Looks up a user in the system's name service: the account's name and its groups.
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

struct AccountName {
  std::string name;
  std::int64_t gid = -1;
};
/// Returns the name and the primary group of the account with this uid, or nullopt if there is none.
std::optional<AccountName> AccountNameOf(std::int64_t uid);

/// True if `group` is the name of the primary or a supplementary group of `uid`. A uid without an account is only in
/// the group `gid`. Queries the name service at each call, which may take as long as a network lookup.
bool IsInGroup(uid_t uid, gid_t gid, const std::string& group);

/// Queries the groups of a user once and caches them for a minute.
class UserGroups {
 public:
  /// Returns the supplementary groups of `uid`, including `gid`. A uid without an account has only `gid`.
  const std::vector<gid_t>& Of(uid_t uid, gid_t gid);

 private:
  struct Entry {
    std::vector<gid_t> groups;
    std::chrono::steady_clock::time_point read_at;
  };
  std::map<std::pair<uid_t, gid_t>, Entry> entries_;
};

}  // namespace divvy
