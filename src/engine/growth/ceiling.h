// The last check before nodes are requested: no set of requests may take a provider above its limits. It counts
// everything anew and shares no code with the decision, so that a fault there cannot spend money.
#pragma once

#include <string>
#include <vector>

#include "engine/growth/growth.h"

namespace divvy::growth {

struct CeilingResult {
  std::vector<NodeRequest> allowed;  // Whole sets only, in the order given.
  std::vector<std::string> refused;  // A line for each set that was refused, with the numbers.
};

/// Returns which of these requests for nodes stay within the limits of their providers, and which are refused.
/// `requests`: what is about to be requested, in addition to input.nodes.
CeilingResult WithinCeiling(const GrowthInput& input, const std::vector<NodeRequest>& requests);

}  // namespace divvy::growth
