// What holds one waiting job back, all of it, with numbers and with who has what is missing.
#pragma once

#include <vector>

#include "engine/core/explain/explain.h"
#include "engine/core/place/explain_view.h"

namespace divvy::core {

/// The hardest first. Empty: it would start at the next decision. Without `has_holders` nobody is named who has what is
/// missing, for less work.
/// Requires: the job of the view waits.
std::vector<Blocker> FindBlockers(View& view, const Names& names, bool has_holders = true);

}  // namespace divvy::core
