// Divides the room on one GPU into steps, for lookup tables: what fits changes only at sums of the sizes, which are
// multiples of their greatest common divisor. With sizes in tenths, a table has 11 entries instead of kGpuParts + 1.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/placement/shape.h"

namespace divvy::placement {

class SizeSteps {
 public:
  /// Chooses a step size so that all these sizes are whole numbers of steps. `sizes`: in ten-thousandths of a GPU, each
  /// from 1 to kGpuParts. If empty, a step is a whole GPU.
  explicit SizeSteps(const std::vector<int>& sizes = {}) {
    int step = 0;
    for (const int size : sizes) step = std::gcd(step, size);
    step_ = step == 0 ? kGpuParts : step;
    inverse_ = ((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(step_) - 1) / static_cast<std::uint64_t>(step_);
  }

  /// Returns the number of whole steps in `parts`. Requires: 0 <= parts <= kGpuParts.
  std::size_t Of(int parts) const {
    // Multiplying by the inverse is exact up to 2^32 / step, and faster than dividing.
    return static_cast<std::size_t>((static_cast<std::uint64_t>(parts) * inverse_) >> 32);
  }
  /// Returns the number of entries of a table that is indexed by Of.
  std::size_t count() const { return Of(kGpuParts) + 1; }
  /// Returns the step size, in ten-thousandths of a GPU.
  int step() const { return step_; }

 private:
  int step_;
  std::uint64_t inverse_;
};

}  // namespace divvy::placement
