#include "engine/placement/gradient.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace divvy::placement {
namespace {

// As published: 100 steps of a sigmoid with the width of a GPU (kGpuParts). 50 steps or three times the width work as
// well; a thousand steps or a third of the width lose most of the advantage.
constexpr int kSteps = 100;
constexpr double kWidthParts = kGpuParts;
constexpr int kTableBits = 11;

}  // namespace

Gradient::Gradient(Fragmentation fragmentation, WastePrice waste, Prices prices)
    : fragmentation_(std::move(fragmentation)), waste_(std::move(waste)), prices_(std::move(prices)) {
  prices_.model_per_mille.resize(kMaxModels, 0);
  if (prices_.cpu_milli_per_gpu > 0) {
    served_by_cpu_ = (std::int64_t{kGpuParts} << kServedBits) / prices_.cpu_milli_per_gpu;
    cores_factor_ = prices_.cores_per_mille * fragmentation_.total_weight();
  }
  const auto total = static_cast<double>(fragmentation_.total_weight());
  for (int step = 1; step < kSteps; ++step) {
    const double share = static_cast<double>(step) / kSteps;
    least_gain_.push_back(static_cast<std::int64_t>(std::ceil(std::log(share / (1 - share)) * kWidthParts * total)));
  }
  least_gain_.push_back(std::numeric_limits<std::int64_t>::max());
  const std::int64_t range = least_gain_[kSteps - 2] - least_gain_[0];
  while ((range >> table_shift_) >= (1 << kTableBits)) ++table_shift_;
  for (std::int64_t at = 0; at <= range >> table_shift_; ++at) {
    const std::int64_t gain = least_gain_[0] + (at << table_shift_);
    const auto score = std::ranges::upper_bound(least_gain_, gain) - least_gain_.begin();
    score_at_.push_back(static_cast<std::uint8_t>(score));
  }
}

std::int64_t Gradient::Worth(const NodeState& node) const {
  return fragmentation_.Useful(node) - CoresPrice(node.gpu_free, node.cpu_free);
}

Score Gradient::ScoreOf(std::int64_t gain) const {
  if (gain < least_gain_[0]) return 0;
  if (gain >= least_gain_[kSteps - 2]) return kSteps - 1;
  std::size_t score = score_at_[static_cast<std::size_t>((gain - least_gain_[0]) >> table_shift_)];
  while (gain >= least_gain_[score]) ++score;
  return static_cast<Score>(score);
}

Gradient::Pick Gradient::Best(const NodeState& node, std::int64_t worth, const Shape& shape) const {
  const std::int64_t total = fragmentation_.total_weight();
  const std::size_t row = fragmentation_.Row(node.model, node.cpu_free - shape.cpu_milli);
  const std::int64_t asked = shape.gpu_parts();
  const std::int64_t cores = CoresPrice(node.gpu_free - asked, node.cpu_free - shape.cpu_milli);
  if (shape.gpus == 0) return {ScoreOf(fragmentation_.UsefulWith(node, row, node.whole) - worth - cores), -1};

  const std::int64_t scarcity = prices_.model_per_mille[node.model] * asked * total / 1000;
  const std::int64_t fixed = asked * total - worth - scarcity - cores;
  if (shape.is_whole()) {
    const std::int64_t useful = fragmentation_.UsefulWith(node, row, node.whole - shape.gpus);
    return {ScoreOf(fixed + useful - shape.gpus * fragmentation_.ForGpu(row, kGpuParts)), -1};
  }
  if (!shape.is_share()) {
    NodeState after = node;
    Take(after, shape, TightestGpus(node, shape));
    return {ScoreOf(fixed + fragmentation_.UsefulWith(after, row, after.whole)), -1};
  }

  std::array<std::int64_t, GpuSet::kCapacity> useful;
  std::int64_t sum = 0;
  const std::span<const GpuRoom> rooms = node.rooms();
  for (std::size_t gpu = 0; gpu < rooms.size(); ++gpu)
    sum += useful[gpu] = fragmentation_.ForGpu(row, rooms[gpu].free_parts);
  const std::int64_t with_whole = fragmentation_.ForWhole(row, node.whole);
  const std::int64_t less_one = node.whole > 0 ? fragmentation_.ForWhole(row, node.whole - 1) : 0;
  Pick pick;
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  int tried = -1;
  for (std::size_t gpu = 0; gpu < rooms.size(); ++gpu) {
    const int free = rooms[gpu].free_parts;
    if (free == tried || free < shape.parts || rooms[gpu].memory_free < shape.gpu_memory_mib) continue;
    tried = free;
    const std::int64_t loss = prices_.waste_parts == 0 ? 0
                                                       : waste_.Loss(free, shape.parts) * prices_.waste_parts / 1000 *
                                                             total / (WastePrice::kGpu / 1000);
    const std::int64_t gain = fixed - loss + sum - useful[gpu] + fragmentation_.ForGpu(row, free - shape.parts) +
                              (free == kGpuParts ? less_one : with_whole);
    if (gain <= most) continue;
    most = gain;
    if (const Score score = ScoreOf(gain); score > pick.score) pick = {score, static_cast<int>(gpu)};
  }
  return pick;
}

Score Gradient::Rate(const NodeState& node, std::int64_t worth, const Shape& shape) const {
  return Fits(node, shape) ? Best(node, worth, shape).score : kNoRoom;
}

GpuPlace Gradient::Choose(const NodeState& node, std::int64_t worth, const Shape& shape) const {
  if (!shape.is_share()) return TightestGpus(node, shape);
  return {GpuSet::Only(Best(node, worth, shape).gpu)};
}

}  // namespace divvy::placement
