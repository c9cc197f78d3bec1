#include "platform/users/user_identity.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>

namespace divvy {
namespace {

// Long enough that a burst of jobs queries once, short enough that a new group membership soon takes effect.
constexpr std::chrono::seconds kKeep{60};

// The largest buffer for a group's entry: some groups have tens of thousands of members.
constexpr std::size_t kGroupEntryMost = 16u << 20;

std::vector<gid_t> ReadGroups(uid_t uid, gid_t gid) {
  const auto user = AccountNameOf(uid);
  if (!user) return {gid};
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (::getgrouplist(user->name.c_str(), gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<std::size_t>(count));
    if (::getgrouplist(user->name.c_str(), gid, groups.data(), &count) < 0) return {gid};
  }
  groups.resize(static_cast<std::size_t>(count));
  return groups;
}

std::optional<gid_t> FindGroup(const std::string& name) {
  for (std::size_t size = 16384; size <= kGroupEntryMost; size *= 4) {
    group entry = {};
    group* found = nullptr;
    std::string buffer(size, '\0');
    const int error = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (found != nullptr) return entry.gr_gid;
    if (error != ERANGE) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<AccountName> AccountNameOf(std::int64_t uid) {
  std::array<char, 16'384> buffer;
  passwd entry = {};
  passwd* found = nullptr;
  if (::getpwuid_r(static_cast<uid_t>(uid), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return AccountName{found->pw_name, found->pw_gid};
}

bool IsInGroup(uid_t uid, gid_t gid, const std::string& group) {
  const auto wanted = FindGroup(group);
  if (!wanted) return false;
  const auto user = AccountNameOf(uid);
  return std::ranges::count(ReadGroups(uid, user ? static_cast<gid_t>(user->gid) : gid), *wanted) > 0;
}

const std::vector<gid_t>& UserGroups::Of(uid_t uid, gid_t gid) {
  const auto now = std::chrono::steady_clock::now();
  auto [entry, is_new] = entries_.try_emplace({uid, gid});
  if (is_new || now - entry->second.read_at > kKeep) entry->second = {ReadGroups(uid, gid), now};
  return entry->second.groups;
}

}  // namespace divvy
