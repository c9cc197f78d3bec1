// What holds a job back, in the words of one server: the core says which things these are, the book which GPUs, which
// jobs and how much.
#pragma once

#include <string>
#include <vector>

#include "engine/core/explain/explain.h"
#include "engine/server/explain.h"

namespace divvy {

/// The blockers that come from the entry itself: it is held, it depends on other jobs, or it may not begin yet.
std::vector<Blocker> OwnBlockers(const WaitingEntry& entry, Time now);

/// All, the hardest first; `found`: what the core found.
std::vector<Blocker> FindBlockers(const Server& server, const WaitingEntry& entry,
                                  const std::vector<core::Blocker>& found, Time now);

/// Why machines that could do what this asks for take no new work, each once: "node n1 is draining: fan; node n2 ...".
/// Empty: all of them do.
std::string IdleNodesText(const Server& server, const WaitingEntry& entry);

}  // namespace divvy
