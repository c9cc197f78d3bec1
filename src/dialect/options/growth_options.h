// The options for nodes on demand: --no-grow, --provider and --max-price (model/growth_wishes.h).
#pragma once

#include <vector>

#include "dialect/options/options.h"
#include "model/job.h"

namespace divvy::dialect {

void AddGrowthOptions(std::vector<Option>& table, JobSpec& spec);

}  // namespace divvy::dialect
