// Which controller on another machine this user works with, and as whom: a token line, kept in a file that is theirs
// alone ($XDG_CONFIG_HOME/divvy/controller), or named for one command by DIVVY_CONTROLLER.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "wire/http/token_line.h"

namespace divvy::cli {

/// DIVVY_CONTROLLER: a token line, or the path of a file that holds one. Nothing where it is not set.
Result<std::optional<TokenLine>> ChosenLogin();
/// DIVVY_CONTROLLER=unix:PATH, as jobs on an agent's machine have it: the socket. Empty where it says something else.
std::string ChosenDoor();
/// What divvy login kept; nothing where it did not. Fails with kPermissionDenied where others may read it.
Result<std::optional<TokenLine>> KeptLogin();
Status KeepLogin(const TokenLine& line);
/// False: there was none.
Result<bool> ForgetLogin();

}  // namespace divvy::cli
