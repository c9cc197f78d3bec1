// Placement policies by name, made for a demand and a fleet.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/placement/demand.h"
#include "engine/placement/scorer.h"

namespace divvy::placement {

/// The policies that placement knows: "default", "fgd", "random" and those of MakeSimpleScorer.
///
/// `demand`: what is usually asked for; may be empty at first, then the first node with room is taken.
/// `requests`: from how many it was counted. `capacity_parts[m]`: all GPUs of model m. `alike`: as in ScarcityByModel.
/// Null for an unknown name.
std::unique_ptr<const Scorer> MakeScorer(std::string_view name, const Demand& demand, double requests,
                                         const std::vector<std::int64_t>& capacity_parts,
                                         const std::vector<int>& alike = {});

}  // namespace divvy::placement
