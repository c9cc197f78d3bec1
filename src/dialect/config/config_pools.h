// The tables [pools.NAME] of divvy.toml.
#pragma once

#include <vector>

#include "base/result.h"
#include "dialect/config/config_document.h"
#include "engine/pool_row.h"

namespace divvy::dialect {

/// True if the entry belongs to a section [pools.NAME].
bool IsOfPools(const ConfigEntry& entry);
/// Applies the entry to `pools`. The error does not name the line; the caller adds it.
Status ReadPoolsEntry(const ConfigEntry& entry, std::vector<PoolRow>& pools);

}  // namespace divvy::dialect
