// How contested each GPU model is by requests that cannot go elsewhere, so that those which can stay away from it; and
// how many CPUs go with a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/demand.h"

namespace divvy::placement {

/// For each model: the demand of requests that name their models (spread over those by capacity, all demand scaled to
/// what the fleet holds) per capacity. 0 where nobody names models; above 1 where more is asked than there is.
/// `capacity_parts[m]`: all GPUs of model m, in parts. `requests`: from how many requests the demand was counted.
///
/// A model that few requests could have named yet is taken to be as contested as models are on average: one large
/// request for a rare model changes everything, and free requests must not fill that model before it comes.
///
/// `alike`: models with the same number there that no request tells apart count as one, so that a price does not depend
/// on how finely a fleet is divided. Empty: each counts for itself.
std::vector<double> ScarcityByModel(const Demand& demand, const std::vector<std::int64_t>& capacity_parts,
                                    double requests, const std::vector<int>& alike = {});

/// Thousandths of a core that requests bring per GPU, over all that ask for GPUs; 0 when none does.
std::int64_t CpuMilliPerGpu(const Demand& demand);

}  // namespace divvy::placement
