// The default policy: put a request where it makes the least room useless, at today's prices.
//
// A candidate's gain is d = F(before) - F(after) in parts (fragmentation.h), less
//   waste:    the share's loss on the chosen GPU (waste.h), in GPUs, times `waste`,
//   scarcity: the model's contest (scarcity.h) per part asked,
//   cores:    GPU room of the node that it leaves without CPUs: what is free beyond what the free CPUs can serve, when
//             requests bring as many CPUs per GPU as they do on average. So CPU-heavy requests go where cores would
//             stay idle, and light ones help out where cores are short.
// Its score is the integer part of 100 x sigmoid(gain / kGpuParts). The rounding is part of the policy: gains within
// about 4 % of a GPU count as equal, and equals are decided by one fixed order of nodes, which fills the same nodes
// first and keeps the others clean. Following the exact gradient is about a point of allocation worse.
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
  /// Parts of fragment that the loss of one GPU's worth of shares counts as. 16 GPUs: no loss first, the gradient next.
  std::int64_t waste_parts = 0;
  /// Of each model: parts of fragment per part asked, in thousandths.
  std::vector<std::int64_t> model_per_mille;
  /// Parts of fragment per part of GPU room left without CPUs, in thousandths; and the CPUs that a GPU needs on
  /// average.
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
    int gpu = -1;  // Of a share.
  };
  Pick Best(const NodeState& node, std::int64_t worth, const Shape& shape) const;
  /// The price of what so much GPU and CPU room leaves without CPUs; in parts x total weight.
  std::int64_t CoresPrice(std::int64_t gpu_free, std::int64_t cpu_free) const {
    const std::int64_t served = (cpu_free * served_by_cpu_) >> kServedBits;
    return served >= gpu_free ? 0 : (gpu_free - served) * cores_factor_ / 1000;
  }
  /// `gain` in parts x total weight.
  Score ScoreOf(std::int64_t gain) const;

  static constexpr int kServedBits = 20;

  Fragmentation fragmentation_;
  WastePrice waste_;
  Prices prices_;
  std::int64_t served_by_cpu_ = 0;        // GPU parts that a thousandth of a core serves, in 2^-kServedBits.
  std::int64_t cores_factor_ = 0;         // cores_per_mille x total weight.
  std::vector<std::int64_t> least_gain_;  // [s]: the smallest gain that scores s + 1; the last one is out of reach.
  std::vector<std::uint8_t> score_at_;    // By (gain - least_gain_[0]) >> table_shift_: a score to begin with.
  int table_shift_ = 0;
};

}  // namespace divvy::placement
