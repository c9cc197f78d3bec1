// The accounts of this machine, as its name service knows them. Asking may take as long as a network answers.
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

/// "uid 4711" where it has no name.
std::string UserName(std::int64_t uid);
/// A user of this machine, and only one that jobs can run as: for a daemon of one's own that is oneself.
std::optional<User> FindUser(std::string_view name);
/// The account of that name, also where only the launcher may run jobs as that user; nothing: there is none.
std::optional<User> FindAccount(std::string_view name);
/// There is an account of this name on this machine, whoever jobs can run as: mail may be for it.
bool HasAccount(std::string_view name);
/// "this daemon cannot run jobs as 'ada'; a token is for ...": `what` is for nobody else.
Error CannotRunAs(std::string_view name, std::string_view what);
using FindUserByName = std::function<std::optional<User>(const std::string& name)>;
/// FindUser, that asks once a minute for each name, and every three seconds for one that there is not: the account may
/// be made at any moment. From any thread; one that waits for the name service keeps no other.
FindUserByName KeptUsers(FindUserByName find = FindUser,
                         std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now);
/// What a login of theirs has in its environment: HOME, USER, LOGNAME, SHELL and PATH.
std::vector<std::string> LoginEnvironment(const User& user);

}  // namespace divvy
