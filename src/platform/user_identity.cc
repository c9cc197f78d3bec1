#include "platform/user_identity.h"

#include <grp.h>
#include <pwd.h>

#include <string>

namespace divvy {
namespace {

// Long enough that a burst of jobs asks once, short enough that a new group membership is soon seen.
constexpr std::chrono::seconds kKeep{60};

std::vector<gid_t> ReadGroups(uid_t uid, gid_t gid) {
  passwd entry = {};
  passwd* found = nullptr;
  std::string buffer(16384, '\0');
  ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return {gid};
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (::getgrouplist(entry.pw_name, gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<std::size_t>(count));
    if (::getgrouplist(entry.pw_name, gid, groups.data(), &count) < 0) return {gid};
  }
  groups.resize(static_cast<std::size_t>(count));
  return groups;
}

}  // namespace

const std::vector<gid_t>& UserGroups::Of(uid_t uid, gid_t gid) {
  const auto now = std::chrono::steady_clock::now();
  auto [entry, is_new] = entries_.try_emplace({uid, gid});
  if (is_new || now - entry->second.read_at > kKeep) entry->second = {ReadGroups(uid, gid), now};
  return entry->second.groups;
}

}  // namespace divvy
