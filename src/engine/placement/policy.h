// Placement policies by name, made for a demand and a fleet.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/placement/demand.h"
#include "engine/placement/scorer.h"

namespace divvy::placement {

/// Makes a placement policy by name: "default", "fgd", "random" and those of MakeSimpleScorer.
///
/// `demand`: what jobs usually request; may be empty at first: then the first node with room is chosen. `requests`: the
/// number of requests that `demand` counts. `capacity_parts[m]`: all GPUs of model m, in ten-thousandths of a GPU.
/// `alike`: see ScarcityByModel. Returns null for an unknown name.
std::unique_ptr<const Scorer> MakeScorer(std::string_view name, const Demand& demand, double requests,
                                         const std::vector<std::int64_t>& capacity_parts,
                                         const std::vector<int>& alike = {});

}  // namespace divvy::placement
