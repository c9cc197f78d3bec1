// Which GPU becomes which when a process is restored by the driver.
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

/// "GPU-8f1e...": as the driver's bytes; nothing when it is none.
std::optional<GpuUuid> ParseGpuUuid(std::string_view text);

/// The driver takes nothing but a map of all its GPUs (`all`), each of which is once an old and once a new one.
/// `wanted` are the pairs that matter: old, new. The other GPUs stay themselves where they can. Empty: nothing moves,
/// and the driver is to be given no map. Fails with kInvalidArgument where a GPU is not among `all` or is twice on one
/// side.
Result<std::vector<std::pair<GpuUuid, GpuUuid>>> CompleteGpuMap(const std::vector<GpuUuid>& all,
                                                                const std::vector<std::pair<GpuUuid, GpuUuid>>& wanted);

}  // namespace divvy::keeper
