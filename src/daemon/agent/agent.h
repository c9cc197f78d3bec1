// The agent's process: `divvy internal-agent [FLAGS]`, started by `divvy agent`.
#pragma once

#include <string>
#include <vector>

namespace divvy {

/// Flags: --join-fd N (a descriptor from which a token line is read), --name NAME, --label NAME=VALUE (any number),
/// --emulate SPEC|FILE, --detached (says "ready" on standard error when it is in, or what is wrong, and then writes its
/// log to a file). Returns the exit code.
int AgentMain(const std::vector<std::string>& words);

}  // namespace divvy
