// The residual of a process on a device: bytes that the driver counts beyond the process's own allocations, such as
// contexts and code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace divvy::keeper {

/// Tracks the residual of one process on one device. The driver counts the memory at some moment between two reads of
/// the process's own count, which may change meanwhile. So each sample gives a lower and an upper bound of the
/// residual.
class ResidualSights {
 public:
  /// Adds a sample of a process's GPU memory, to find its residual: what it has beyond its own allocations. `has`: the
  /// bytes by the driver's count, made at some moment since the last call; `said`: the bytes that the process itself
  /// reports now. Returns `residual` clamped to the range that this sample and the last one allow. So allocations and
  /// frees between samples, or a half-created context, do not change it.
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

  /// Returns the lower bound of the residual in bytes, from the last two samples.
  std::uint64_t least() const { return least_; }

 private:
  std::uint64_t said_ = 0;
  std::uint64_t last_least_ = 0;
  std::uint64_t last_most_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t least_ = 0;
};

}  // namespace divvy::keeper
