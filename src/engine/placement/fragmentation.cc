#include "engine/placement/fragmentation.h"

#include <algorithm>

namespace divvy::placement {
namespace {

// A request of several GPUs counts as whole GPUs, whatever it needs of each: fractions of several GPUs are rare, and
// the room that they need is that of whole ones.
int PartsOf(const Shape& shape) { return shape.gpus == 1 ? shape.parts : kGpuParts; }

template <typename T>
void SortUnique(std::vector<T>& values) {
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
}

}  // namespace

Fragmentation::Fragmentation(const Demand& typical, int models) {
  std::int64_t total = 0;
  std::vector<int> sizes;
  for (const auto& [shape, weight] : typical) {
    total += weight;
    if (shape.gpus == 0) continue;
    cpu_steps_.push_back(shape.cpu_milli);
    if (shape.gpus == 1 && shape.parts > 0) sizes.push_back(shape.parts);
    most_asked_ = std::max(most_asked_, static_cast<std::size_t>(shape.gpus));
  }
  total_ = std::max<std::int64_t>(total, 1);
  SortUnique(cpu_steps_);
  SortUnique(sizes);
  levels_ = cpu_steps_.size() + 1;
  width_ = sizes.size() + 1;
  steps_ = SizeSteps(sizes);
  for (std::size_t step = 0; step < steps_.count(); ++step) {
    const int room = static_cast<int>(step) * steps_.step();
    class_of_.push_back(static_cast<std::uint16_t>(std::ranges::upper_bound(sizes, room) - sizes.begin()));
  }
  const std::size_t rows = static_cast<std::size_t>(models) * levels_;
  weights_.assign(rows * width_, 0);
  several_.assign(rows * (most_asked_ + 1), 0);
  for (const auto& [shape, weight] : typical) {
    if (shape.gpus == 0) continue;
    for (int model = 0; model < models; ++model) {
      if (((shape.models >> model) & 1) == 0) continue;
      for (std::size_t row = Row(model, shape.cpu_milli); row < static_cast<std::size_t>(model + 1) * levels_; ++row) {
        if (shape.gpus == 1) {
          for (std::size_t size = class_of_[steps_.Of(PartsOf(shape))]; size < width_; ++size)
            weights_[row * width_ + size] += static_cast<std::int32_t>(weight);
        } else {
          for (auto whole = static_cast<std::size_t>(shape.gpus); whole <= most_asked_; ++whole)
            several_[row * (most_asked_ + 1) + whole] += weight;
        }
      }
    }
  }
}

std::size_t Fragmentation::Row(int model, std::int32_t cpu_free) const {
  // Branch-free binary search, because the branch predictor cannot guess a node's level.
  const std::int32_t* base = cpu_steps_.data();
  std::size_t count = cpu_steps_.size();
  std::size_t below = 0;
  while (count > 0) {
    const std::size_t half = (count + 1) / 2;
    below += base[below + half - 1] <= cpu_free ? half : 0;
    count -= half;
  }
  return static_cast<std::size_t>(model) * levels_ + below;
}

std::int64_t Fragmentation::UsefulWith(const NodeState& node, std::size_t row, int whole) const {
  std::int64_t useful = ForWhole(row, whole);
  for (const GpuRoom& room : node.rooms()) useful += ForGpu(row, room.free_parts);
  return useful;
}

}  // namespace divvy::placement
