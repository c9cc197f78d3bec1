// Why an outcome may differ from what a peer case expects. Reasons are derived from the two outcomes alone, never from
// which case it is; an outcome that none of them fits has failed.
#pragma once

#include <string>

#include "research/peer_cases_world.h"

namespace divvy::research {

/// The reason; empty: there is none. `world` is as it was when it differed.
std::string WhyItMayDiffer(const PeerCase& one, const PeerWorld& world);

}  // namespace divvy::research
