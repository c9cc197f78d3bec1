// How contested each GPU model is by requests that can run on no other, so that flexible requests can avoid it; and the
// average number of CPUs per GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/demand.h"

namespace divvy::placement {

/// Returns for each model the ratio of demand to capacity. Demand counts requests that name models, spread over those
/// models by capacity, with the total demand scaled to the fleet's capacity. 0 if no request names models; above 1 if
/// demand exceeds capacity. `capacity_parts[m]`: all GPUs of model m, in parts. `requests`: the number of requests that
/// the demand counts.
///
/// While the GPUs requested so far, times a model's share of the capacity, are few, the model is assumed to be
/// contested as much as the average model: one large request for a rare model changes everything, and flexible requests
/// must not fill that model before it arrives.
///
/// `alike`: models with the same number that no request distinguishes count as one, so that a price does not depend on
/// how finely a fleet is divided. Empty: each counts separately.
std::vector<double> ScarcityByModel(const Demand& demand, const std::vector<std::int64_t>& capacity_parts,
                                    double requests, const std::vector<int>& alike = {});

/// Returns how many thousandths of a CPU core requests with GPUs have per GPU, on average; 0 if there are no such
/// requests.
std::int64_t CpuMilliPerGpu(const Demand& demand);

}  // namespace divvy::placement
