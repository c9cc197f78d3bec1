// The options of answers that are not tables: divvy show, why and status.
#pragma once

#include <vector>

#include "cli/client/table.h"

namespace divvy::cli {

/// The subset of ListingOptionTable without columns and CSV: --json, -w/--watch and --interval.
std::vector<dialect::Option> AnswerOptionTable(ListingOptions& options);

}  // namespace divvy::cli
