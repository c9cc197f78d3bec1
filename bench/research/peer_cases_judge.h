// Decides whether the outcome of a peer case may differ from the expected one, and why. Reasons are derived from the
// two outcomes alone, never from the identity of the case. If no reason fits, the case has failed.
#pragma once

#include <string>

#include "research/peer_cases_world.h"

namespace divvy::research {

/// Returns the reason why the outcome of case `one` may differ from the expected one; "" if there is none. `world` must
/// be in the state in which the difference was found.
std::string WhyItMayDiffer(const PeerCase& one, const PeerWorld& world);

}  // namespace divvy::research
