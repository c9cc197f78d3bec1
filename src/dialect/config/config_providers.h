// The tables [[providers]] and [[providers.shapes]] of divvy.toml.
#pragma once

#include <vector>

#include "base/result.h"
#include "dialect/config/config_document.h"
#include "model/provider.h"

namespace divvy::dialect {

/// True if the entry's section is one of these.
bool IsOfProviders(const ConfigEntry& entry);
/// Applies the entry to the last of `providers`, or adds one. The error does not name the line; the caller adds it.
Status ReadProvidersEntry(const ConfigEntry& entry, std::vector<Provider>& providers);
/// Checks the table that begins with `entry`, after all entries are read: that nothing required is missing and no name
/// is used twice. Other entries are fine.
Status CheckProvidersEntry(const ConfigEntry& entry, const std::vector<Provider>& providers);

}  // namespace divvy::dialect
