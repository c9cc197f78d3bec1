#include "daemon/auth/admins.h"

#include <algorithm>

namespace divvy {
namespace {

// Short enough that a new group membership takes effect soon, long enough that many commands need one lookup only.
constexpr Duration kKeepAnswer = std::chrono::seconds(30);

}  // namespace

bool Admins::Contains(const User& user, Time now) {
  if (user.uid == 0 || names_.uids.contains(user.uid) || names_.users.contains(user.name)) return true;
  if (names_.groups.empty()) return false;
  const auto [answer, is_new] = answers_.try_emplace(user.uid);
  if (is_new || now < answer->second.asked || now - answer->second.asked >= kKeepAnswer) {
    const bool is_member =
        std::ranges::any_of(names_.groups, [&](const std::string& group) { return is_in_group_(user, group); });
    answer->second = {is_member, now};
  }
  return answer->second.is_member;
}

}  // namespace divvy
