// What room on one GPU is worth to shares, when sizes do not add up to whole GPUs.
//
// Packing the demanded shares onto the fewest GPUs is a cutting-stock problem. The dual of its linear relaxation gives
// each size s a value, in GPUs: what one more request of that size costs at the margin (0.81 of a GPU costs a whole one
// where nothing small enough comes to fill the rest). The value V(r) of r free parts is the best sum of values
// that fits there. Putting s on a GPU with r free loses V(r) - V(r - s) - value(s) >= 0 GPUs for good.
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

  /// Without shares in the demand everything is worth nothing and no placement loses anything.
  explicit WastePrice(const Demand& demand);

  /// V(r), for 0 <= free_parts <= kGpuParts; never falls with more room.
  std::int64_t RoomValue(int free_parts) const { return room_[steps_.Of(free_parts)]; }
  /// What a share of that size is worth: the most that keeps every loss at or above 0. For the sizes of the demand that
  /// is the dual value; for others what they, or ones of up to a thousandth of a GPU less, would be worth beside them.
  std::int64_t SizeValue(int parts) const { return size_[steps_.Of(parts)]; }
  /// Requires: parts <= free_parts. Millionths of a GPU.
  std::int64_t Loss(int free_parts, int parts) const {
    return RoomValue(free_parts) - RoomValue(free_parts - parts) - SizeValue(parts);
  }

  /// GPUs that the demanded shares need at least, in parts of a GPU (the optimum of the relaxation), for a demand of
  /// the given weights; and what they ask. Their difference is lost however one packs.
  double gpus_needed() const { return gpus_needed_; }
  double gpus_asked() const { return gpus_asked_; }

 private:
  SizeSteps steps_;
  std::vector<std::int64_t> room_;  // By steps of room.
  std::vector<std::int64_t> size_;  // By whole steps of the size: what is beyond them takes no step of itself.
  double gpus_needed_ = 0;
  double gpus_asked_ = 0;
};

}  // namespace divvy::placement
