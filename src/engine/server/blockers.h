// What holds a job back, in the words of one server: the core says which things these are, the book which GPUs, which
// jobs and how much.
#pragma once

#include <vector>

#include "engine/core/explain.h"
#include "engine/server/explain.h"

namespace divvy {

std::vector<Blocker> FindBlockers(const Server& server, const WaitingEntry& entry,
                                  const std::vector<core::Blocker>& found, Time now);

}  // namespace divvy
