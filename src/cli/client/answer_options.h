// The options of what is listed in no table: divvy show, why and status.
#pragma once

#include <vector>

#include "cli/client/table.h"

namespace divvy::cli {

/// Of ListingOptionTable --json, -w/--watch and --interval alone: there are no columns to choose, nor any for CSV.
std::vector<dialect::Option> AnswerOptionTable(ListingOptions& options);

}  // namespace divvy::cli
