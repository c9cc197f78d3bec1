// Values the room on one GPU for shares whose sizes do not add up to whole GPUs.
//
// Packing the demanded shares onto the fewest GPUs is a cutting-stock problem. The dual of its linear relaxation gives
// each size s a value in GPUs: the marginal cost of one more request of that size (0.81 of a GPU costs a whole one if
// no request is small enough to fill the rest). The value V(r) of r free parts is the largest sum of values that fits
// there. Putting s on a GPU with r free permanently loses V(r) - V(r - s) - value(s) >= 0 GPUs.
//
// Source: Gilmore and Gomory (1961), column generation with a knapsack.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/demand.h"
#include "engine/placement/size_steps.h"

namespace divvy::placement {

class WastePrice {
 public:
  /// Values are in millionths of a GPU, so that losses are exact integers.
  static constexpr std::int64_t kGpu = 1'000'000;

  /// Computes what free room on a GPU is worth for the GPU fractions that jobs usually request. If they request no
  /// fractions, every value is 0, so no placement loses anything.
  explicit WastePrice(const Demand& demand);

  /// Returns the value of a GPU with this much free room, V(r) above. It never decreases as the room grows. Requires: 0
  /// <= free_parts <= kGpuParts.
  std::int64_t RoomValue(int free_parts) const { return room_[steps_.Of(free_parts)]; }
  /// Returns the value of a GPU fraction of this size: the largest value with which no Loss is negative. For sizes that
  /// jobs request, this is the dual value. Another size gets what it, or a size up to a thousandth of a GPU smaller,
  /// would be worth next to those.
  std::int64_t SizeValue(int parts) const { return size_[steps_.Of(parts)]; }
  /// Returns how much room is lost, in millionths of a GPU, if a fraction of `parts` is placed on a GPU with
  /// `free_parts` free. Requires: parts <= free_parts.
  std::int64_t Loss(int free_parts, int parts) const {
    return RoomValue(free_parts) - RoomValue(free_parts - parts) - SizeValue(parts);
  }

  /// Returns how many GPUs the requested fractions need at least, as a fractional number (the optimum of the
  /// relaxation). gpus_asked() returns their sum. The difference is lost however they are packed.
  double gpus_needed() const { return gpus_needed_; }
  double gpus_asked() const { return gpus_asked_; }

 private:
  SizeSteps steps_;
  std::vector<std::int64_t> room_;  // Indexed by steps of room.
  std::vector<std::int64_t> size_;  // Indexed by whole steps of the size; a remainder beyond them occupies no step of
                                    // its own.
  double gpus_needed_ = 0;
  double gpus_asked_ = 0;
};

}  // namespace divvy::placement
