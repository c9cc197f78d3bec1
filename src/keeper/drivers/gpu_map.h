// Maps old to new GPUs when the driver restores a process.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace divvy::keeper {

using GpuUuid = std::array<unsigned char, 16>;

/// Parses "GPU-8f1e..." into the driver's bytes; std::nullopt if it is not a UUID.
std::optional<GpuUuid> ParseGpuUuid(std::string_view text);

/// Extends `wanted`, the pairs of old and new GPUs of a process that moves, to the complete map that the driver
/// requires. In that map, each GPU of `all` appears once as old and once as new. GPUs that are not in `wanted` are
/// mapped to themselves where possible. Returns an empty map if no GPU changes; then pass no map to the driver. Errors:
/// kInvalidArgument if a GPU is not in `all` or appears twice on one side.
Result<std::vector<std::pair<GpuUuid, GpuUuid>>> CompleteGpuMap(const std::vector<GpuUuid>& all,
                                                                const std::vector<std::pair<GpuUuid, GpuUuid>>& wanted);

}  // namespace divvy::keeper
