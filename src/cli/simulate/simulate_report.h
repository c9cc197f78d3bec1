// What divvy simulate prints: one row or JSON object per policy.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/table.h"
#include "simulate/fill.h"

namespace divvy::cli {

/// A table or CSV, a row per policy.
Result<std::string> FillTable(const std::vector<simulate::FillResult>& results, const ListingOptions& options);

/// One policy: an object; several: an array of them. allocation_percent_at_* are means over the seeds, null beyond the
/// load that was reached; `sd` is of the one at 100; allocation_percent[x] is the mean at load x.
std::string FillJson(const std::vector<simulate::FillResult>& results);

}  // namespace divvy::cli
