// Who may do what only administrators may: root, the daemon's own user, and those that divvy.toml names, one by one or
// by their groups.
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
    std::set<std::int64_t> uids;  // Besides 0.
    std::set<std::string> users;
    std::set<std::string> groups;
  };
  /// True if the user is in the group, as their own group or as a further one. May ask the network, so the answer is
  /// kept for half a minute.
  using IsInGroup = std::function<bool(const User& user, const std::string& group)>;

  Admins(Names names, IsInGroup is_in_group) : names_(std::move(names)), is_in_group_(std::move(is_in_group)) {}

  bool Contains(const User& user, Time now);

 private:
  struct Answer {
    bool is_member = false;
    Time asked = kNoTime;
  };

  Names names_;
  IsInGroup is_in_group_;
  std::map<std::int64_t, Answer> answers_;  // By uid.
};

}  // namespace divvy
