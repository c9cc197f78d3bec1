// What holds one waiting job back, all of it, with numbers and with who has what is missing.
#pragma once

#include <vector>

#include "engine/core/explain.h"
#include "engine/core/explain_view.h"

namespace divvy::core {

/// The hardest first. Empty: it would start at the next decision.
/// Requires: the job of the view waits. `begin`: when it may, kNoTime where that does not keep it back.
std::vector<Blocker> FindBlockers(View& view, const Names& names, Time begin);

}  // namespace divvy::core
