// The providers that are part of divvy: they create nodes on Slurm or Kubernetes. The daemon runs each of them as a
// separate program (docs/providers.md, "The protocol").
#pragma once

#include <string>

#include "base/result.h"
#include "wire/messages/provider_messages.h"

namespace divvy::cli {

// Both functions carry out one order of the daemon: `verb` is create, list or destroy. They return the answer as JSON,
// and block until Slurm or Kubernetes has answered.

/// Carries out an order with Slurm's commands.
Result<std::string> CallSlurm(const std::string& verb, const wire::ProviderOrder& order);
/// Carries out an order with requests to the Kubernetes API server. Gives up shortly before the time limit of the
/// daemon, DIVVY_TIMEOUT_S seconds.
Result<std::string> CallKubernetes(const std::string& verb, const wire::ProviderOrder& order);

}  // namespace divvy::cli
