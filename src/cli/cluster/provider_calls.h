// The providers that are part of divvy: what the daemon runs as their programs (docs/providers.md, "The protocol").
#pragma once

#include <string>

#include "base/result.h"
#include "wire/messages/provider_messages.h"

namespace divvy::cli {

// Both carry out one order: `verb` is create, list or destroy. They return the answer, as JSON, and block for as long
// as the other system takes.

/// By Slurm's commands.
Result<std::string> CallSlurm(const std::string& verb, const wire::ProviderOrder& order);
/// By calls of the API server. Gives up shortly before the seconds of DIVVY_TIMEOUT_S have passed.
Result<std::string> CallKubernetes(const std::string& verb, const wire::ProviderOrder& order);

}  // namespace divvy::cli
