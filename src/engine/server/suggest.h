// The smallest change of a request with which a job would start at once, as the command line takes it.
#pragma once

#include <optional>
#include <string>

#include "engine/core/explain/explain.h"
#include "engine/server/server.h"

namespace divvy {

/// `change` is what the core found for it, which looks at no single GPU of a server that mixes kinds: those are tried
/// here. Each is decided on a copy before it is named, where the queue is short enough to copy.
std::string SuggestChange(const Server& server, const WaitingEntry& entry, const std::optional<core::Change>& change,
                          Time now);

}  // namespace divvy
