// Decides who is an administrator: root, the daemon's own user, and the users and groups that divvy.toml lists.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "base/time.h"
#include "model/job.h"

namespace divvy {

class Admins {
 public:
  struct Names {
    std::set<std::int64_t> uids;  // In addition to uid 0.
    std::set<std::string> users;
    std::set<std::string> groups;
  };
  /// Returns true if the user is in the group, as primary or supplementary group. May query the network, so the result
  /// is cached for half a minute.
  using IsInGroup = std::function<bool(const User& user, const std::string& group)>;

  Admins(Names names, IsInGroup is_in_group) : names_(std::move(names)), is_in_group_(std::move(is_in_group)) {}

  bool Contains(const User& user, Time now);

 private:
  /// Whether a user is a member of one of the groups, and when that was looked up.
  struct Answer {
    bool is_member = false;
    Time asked = kNoTime;
  };

  Names names_;
  IsInGroup is_in_group_;
  std::map<std::int64_t, Answer> answers_;  // By uid.
};

}  // namespace divvy
