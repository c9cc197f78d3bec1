// The default policy: places a request where it makes the least room useless, at current prices.
//
// A candidate's gain is d = F(before) - F(after) in parts (fragmentation.h), less
//   waste:    the loss in GPUs of a share on the chosen GPU (waste.h), times `waste`,
//   scarcity: how contested the model is (scarcity.h), per requested part,
//   cores:    GPU room that the node is left with but cannot serve with its free CPUs, at the average number of CPUs
//             per GPU that requests have. So CPU-heavy requests go where cores would stay idle, and requests with few
//             CPUs go where cores are short.
// The score is the integer part of 100 x sigmoid(gain / kGpuParts). The rounding is part of the policy: gains within
// about 4 % of a GPU count as equal, and equal scores are decided by one fixed node order, which fills the same nodes
// first and keeps the others free. Following the exact gradient allocates about one point less.
//
// With all prices at 0 this is FGD as published.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/fragmentation.h"
#include "engine/placement/scorer.h"
#include "engine/placement/waste.h"

namespace divvy::placement {

struct Prices {
  /// Parts of fragment that the loss of one GPU's worth of shares counts as. 16 GPUs: avoiding loss comes first, the
  /// gradient second.
  std::int64_t waste_parts = 0;
  /// Per model: parts of fragment per requested part, in thousandths.
  std::vector<std::int64_t> model_per_mille;
  /// Parts of fragment per part of GPU room left without CPUs, in thousandths; and the average CPUs that a GPU needs.
  std::int64_t cores_per_mille = 0;
  std::int64_t cpu_milli_per_gpu = 0;
};

class Gradient : public Scorer {
 public:
  Gradient(Fragmentation fragmentation, WastePrice waste, Prices prices);

  std::int64_t Worth(const NodeState& node) const override;
  Score Rate(const NodeState& node, std::int64_t worth, const Shape& shape) const override;
  GpuPlace Choose(const NodeState& node, std::int64_t worth, const Shape& shape) const override;

  const Fragmentation& fragmentation() const { return fragmentation_; }

 private:
  struct Pick {
    Score score = kNoRoom;
    int gpu = -1;  // Set for shares only.
  };
  Pick Best(const NodeState& node, std::int64_t worth, const Shape& shape) const;
  /// Returns the price of free GPU room that no task can use because the node's free CPUs do not suffice. In
  /// ten-thousandths of a GPU, multiplied by the total weight of typical requests.
  std::int64_t CoresPrice(std::int64_t gpu_free, std::int64_t cpu_free) const {
    const std::int64_t served = (cpu_free * served_by_cpu_) >> kServedBits;
    return served >= gpu_free ? 0 : (gpu_free - served) * cores_factor_ / 1000;
  }
  /// Converts a candidate's gain (see the top of this file) to its score. `gain`: in ten-thousandths of a GPU,
  /// multiplied by the sum of the weights of the typical requests (Fragmentation::total_weight).
  Score ScoreOf(std::int64_t gain) const;

  static constexpr int kServedBits = 20;

  Fragmentation fragmentation_;
  WastePrice waste_;
  Prices prices_;
  std::int64_t served_by_cpu_ = 0;        // GPU parts that a thousandth of a core can serve, in 2^-kServedBits.
  std::int64_t cores_factor_ = 0;         // cores_per_mille x total weight.
  std::vector<std::int64_t> least_gain_;  // [s]: the smallest gain that scores s + 1; the last entry is unreachable.
  std::vector<std::uint8_t> score_at_;    // Indexed by (gain - least_gain_[0]) >> table_shift_: a starting score for
                                          // the search.
  int table_shift_ = 0;
};

}  // namespace divvy::placement
