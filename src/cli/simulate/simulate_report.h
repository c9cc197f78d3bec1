// The output of divvy simulate: one row or JSON object per policy.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/table.h"
#include "simulate/fill.h"

namespace divvy::cli {

/// Returns a table or CSV with one row per policy.
Result<std::string> FillTable(const std::vector<simulate::FillResult>& results, const ListingOptions& options);

/// Returns JSON: an object for one policy, an array for several. allocation_percent_at_* are means over the seeds, and
/// null beyond the load that was reached. `sd` is the standard deviation at load 100. allocation_percent[x] is the mean
/// at load x.
std::string FillJson(const std::vector<simulate::FillResult>& results);

}  // namespace divvy::cli
