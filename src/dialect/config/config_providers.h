// The tables [[providers]] and [[providers.shapes]] of divvy.toml.
#pragma once

#include <vector>

#include "base/result.h"
#include "dialect/config/config_document.h"
#include "model/provider.h"

namespace divvy::dialect {

/// True if the entry belongs to a table [[providers]] or [[providers.shapes]].
bool IsOfProviders(const ConfigEntry& entry);
/// Applies the entry to the last of `providers`, or adds one. The error does not name the line; the caller adds it.
Status ReadProvidersEntry(const ConfigEntry& entry, std::vector<Provider>& providers);
/// Call for each entry after all entries are read. If `entry` begins a table of a provider or shape, checks that the
/// table has all required keys and that its name is used only once. Accepts any other entry.
Status CheckProvidersEntry(const ConfigEntry& entry, const std::vector<Provider>& providers);

}  // namespace divvy::dialect
