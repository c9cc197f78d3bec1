// The residual of a process on a device: bytes that the driver counts for it beyond those that it allocated, such as
// its contexts and its code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace divvy::keeper {

/// Follows the residual of one process on one device. The driver counts the process's memory at some moment between two
/// looks at what the process itself says, which can change meanwhile. So each sight gives two bounds of the residual.
class ResidualSights {
 public:
  /// The driver counted `has` bytes since the last call, and the process says `said` now. Returns the new
  /// residual in place of `residual`: within the bounds that this sight and the last one have in common. So neither
  /// memory that the process allocates or frees between two looks nor a context that is half made changes it. All in
  /// bytes.
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

  /// The bytes that the residual has at least, by the last two sights.
  std::uint64_t least() const { return least_; }

 private:
  std::uint64_t said_ = 0;
  std::uint64_t last_least_ = 0;
  std::uint64_t last_most_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t least_ = 0;
};

}  // namespace divvy::keeper
