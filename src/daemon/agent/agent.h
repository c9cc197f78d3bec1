// The agent process: `divvy internal-agent [FLAGS]`, started by `divvy agent`.
#pragma once

#include <string>
#include <vector>

namespace divvy {

/// Flags: --join-fd N (a descriptor from which a token line is read), --name NAME, --label NAME=VALUE (repeatable),
/// --emulate SPEC|FILE, --on-demand (see AgentSession::Start::failure_hold), --detached. With --detached the agent
/// writes "ready" or an error to standard error once it has joined or failed, and then logs to a file. Returns the exit
/// code.
int AgentMain(const std::vector<std::string>& words);

}  // namespace divvy
