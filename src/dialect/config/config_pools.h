// The tables [pools.NAME] of divvy.toml.
#pragma once

#include <vector>

#include "base/result.h"
#include "dialect/config/config_document.h"
#include "engine/pool_row.h"

namespace divvy::dialect {

/// True if the entry's section is one of these.
bool IsOfPools(const ConfigEntry& entry);
/// Puts it into `pools`. An error says what is wrong without the line, which the caller knows.
Status ReadPoolsEntry(const ConfigEntry& entry, std::vector<PoolRow>& pools);

}  // namespace divvy::dialect
