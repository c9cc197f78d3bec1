#include "daemon/auth/user_right_cache.h"

#include "base/text.h"
#include "daemon/runtime/log.h"

namespace divvy {
namespace {

constexpr std::string_view kRow = "right.";

}  // namespace

bool UserRightCache::LoadSetting(std::string_view key, std::string_view text) {
  if (!key.starts_with(kRow)) return false;
  const std::size_t dot = key.find('.', kRow.size());
  if (dot == std::string_view::npos) return false;
  const auto uid = ParseInteger(key.substr(kRow.size(), dot - kRow.size()));
  const auto gid = ParseInteger(key.substr(dot + 1));
  const UserRight right = ReadRight(std::string(text));
  if (uid && gid && right != UserRight{}) rights_[{*uid, *gid}] = right;
  return true;
}

void UserRightCache::Learn(int connection, std::int64_t uid, std::int64_t gid) {
  if (!ports_.ask || asked_.contains({uid, gid})) return;
  const auto right = ports_.ask(connection);
  if (!right && right.error().code != ErrorCode::kPermissionDenied)
    return ports_.note("event=right_not_asked uid=" + std::to_string(uid) +
                       " error=" + LogQuoted(right.error().message));
  asked_.emplace(uid, gid);
  if (!right) return;  // The launcher gives system users no right; they may query, but not run jobs.
  UserRight& known = rights_[{uid, gid}];
  if (known == *right) return;
  known = *right;
  ports_.keep(std::string(kRow) + std::to_string(uid) + "." + std::to_string(gid), RightText(known));
}

UserRight UserRightCache::Of(const User& user) const {
  const auto at = rights_.find({user.uid, user.gid});
  return at == rights_.end() ? UserRight{} : at->second;
}

std::string UserRightCache::ByName(const User& user) {
  const UserRight own = Of(user);
  if (!ports_.ask_by_name || own == UserRight{}) return "";
  const std::pair key(Numbers(user.uid, user.gid), user.name);
  if (const auto known = by_name_.find(key); known != by_name_.end()) return known->second;
  const auto right = ports_.ask_by_name({user.uid, user.gid, own});
  if (!right) {
    ports_.note("event=right_by_name_refused uid=" + std::to_string(user.uid) +
                " error=" + LogQuoted(right.error().message));
    return "";
  }
  return by_name_.emplace(key, RightText(*right)).first->second;
}

}  // namespace divvy
