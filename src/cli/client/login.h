// The controller on another machine that this user works with, and the user's token there. It is a token line in a file
// that only the user can read ($XDG_CONFIG_HOME/divvy/controller), or DIVVY_CONTROLLER for one command.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "wire/http/token_line.h"

namespace divvy::cli {

/// Reads DIVVY_CONTROLLER: a token line, or the path of a file that holds one. Returns nullopt if it is not set.
Result<std::optional<TokenLine>> ChosenLogin();
/// Returns the socket of DIVVY_CONTROLLER=unix:PATH, which jobs on an agent's node have. Returns "" for any other
/// value.
std::string ChosenAgentSocket();
/// Returns the login that divvy login stored, or nullopt. Fails with kPermissionDenied if other users can read the
/// file.
Result<std::optional<TokenLine>> KeptLogin();
Status KeepLogin(const TokenLine& line);
/// Deletes the login that divvy login stored. Returns false if there was none.
Result<bool> ForgetLogin();

}  // namespace divvy::cli
