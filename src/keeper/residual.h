// What the driver has taken on a device for a process beyond what the process allocated: its contexts and its code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace divvy::keeper {

/// Of one process on one device. The driver counts a process's memory at some moment between two looks at what the
/// process itself says, and that can change meanwhile; so each sight tells the residual between two bounds.
class ResidualSights {
 public:
  /// The driver counted `has` bytes since the last call, and the process says `said` now. Returns what becomes of
  /// `residual`: it follows as far as two sights in a row are sure of it. What a process allocates or frees between
  /// them is no residual, and a context that is half made is not the whole of it.
  std::uint64_t Follow(std::uint64_t residual, std::uint64_t has, std::uint64_t said) {
    const auto beyond = [has](std::uint64_t bytes) { return has > bytes ? has - bytes : 0; };
    const std::uint64_t least = beyond(std::max(said, said_));
    const std::uint64_t most = beyond(std::min(said, said_));
    least_ = std::min(least, last_least_);
    const std::uint64_t followed = std::clamp(residual, least_, std::max(most, last_most_));
    said_ = said;
    last_least_ = least;
    last_most_ = most;
    return followed;
  }

  /// So many bytes it is for sure.
  std::uint64_t least() const { return least_; }

 private:
  std::uint64_t said_ = 0;
  std::uint64_t last_least_ = 0;
  std::uint64_t last_most_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t least_ = 0;
};

}  // namespace divvy::keeper
