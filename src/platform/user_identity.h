// Which groups a user is in, asked of the system's name service once per user and kept for a minute.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <utility>
#include <vector>

namespace divvy {

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
