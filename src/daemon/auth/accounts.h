// User accounts of this machine, as its name service reports them. A lookup may block for as long as a network request.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"

namespace divvy {

/// Returns the account's name, or "uid 4711" if the uid has no name.
std::string UserName(std::int64_t uid);
/// Returns the account of that name if this daemon can run jobs as that user. A daemon that is not root can do so only
/// for its own user.
std::optional<User> FindUser(std::string_view name);
/// Returns the account of that name, even if only the launcher can run jobs as that user. Returns nullopt if there is
/// no such account.
std::optional<User> FindAccount(std::string_view name);
/// FindAccount if jobs run as their submitters on this machine or under another controller, as on a served machine;
/// otherwise FindUser.
std::optional<User> FindUserOf(bool is_machine_wide, std::string_view name);
/// Returns true if an account of this name exists, even if this daemon cannot run jobs as that user. Mail may be
/// addressed to it.
bool HasAccount(std::string_view name);
/// Returns the error "this daemon cannot run jobs as 'ada'; WHAT must be for a user of this machine, ...". `what` is
/// the thing that was requested for that user, such as "a token".
Error CannotRunAs(std::string_view name, std::string_view what);
using FindUserByName = std::function<std::optional<User>(const std::string& name)>;
/// Returns `find` with a cache: found accounts are kept for one minute, missing ones for three seconds, since an
/// account may be created at any moment. The returned function may be called from any thread. A call of it that waits
/// for the name service does not block other calls.
FindUserByName KeptUsers(FindUserByName find = FindUser,
                         std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now);
/// Returns the environment that a login of this user has: HOME, USER, LOGNAME, SHELL and PATH.
std::vector<std::string> LoginEnvironment(const User& user);

}  // namespace divvy
