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

  /// If the demand has no shares, every value is 0 and no placement loses anything.
  explicit WastePrice(const Demand& demand);

  /// V(r), for 0 <= free_parts <= kGpuParts; monotonic in the room.
  std::int64_t RoomValue(int free_parts) const { return room_[steps_.Of(free_parts)]; }
  /// The value of a share of this size: the largest one that keeps every loss at or above 0. For sizes of the demand
  /// this is the dual value. Other sizes get what they, or sizes up to a thousandth of a GPU smaller, would be worth
  /// next to the demanded ones.
  std::int64_t SizeValue(int parts) const { return size_[steps_.Of(parts)]; }
  /// Requires: parts <= free_parts. Millionths of a GPU.
  std::int64_t Loss(int free_parts, int parts) const {
    return RoomValue(free_parts) - RoomValue(free_parts - parts) - SizeValue(parts);
  }

  /// The minimum number of GPUs, with fractions, that the demanded shares need (the optimum of the relaxation, for a
  /// demand of the given weights), and the sum that they request. The difference is lost with any packing.
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
