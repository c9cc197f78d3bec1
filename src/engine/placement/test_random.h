// Small random clusters and requests for the tests; the same seed gives the same values on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/demand.h"

namespace divvy::placement {

/// A place on these GPUs; bit g: GPU g.
inline GpuPlace AtGpus(std::uint64_t bits, std::uint8_t slices = 0) { return {GpuSet::FromBits(bits), slices}; }

class TestRandom {
 public:
  explicit TestRandom(std::uint64_t seed) : state_(seed * 2 + 1) {}

  /// 0 .. bound - 1.
  int Below(int bound) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(bound));
  }

  Shape AnyShape() {
    Shape shape;
    shape.cpu_milli = 500 * Below(25);
    shape.memory_mib = 1024 * Below(9);
    const int kind = Below(10);
    if (kind < 5) {
      shape.gpus = 1;
      shape.parts = static_cast<std::int16_t>(500 + 500 * Below(19));
    } else if (kind < 9) {
      shape.gpus = static_cast<std::int16_t>(1 << Below(6));
      shape.parts = kGpuParts;
    }
    if (shape.gpus > 0 && Below(4) == 0) shape.models = static_cast<ModelSet>(1 + Below(7));
    return shape;
  }

  NodeState AnyNode(int models) { return MakeNode(8000 * (1 + Below(6)), 65536, 1 << Below(7), Below(models)); }

  std::vector<Shape> Shapes(int count) {
    std::vector<Shape> shapes;
    for (int i = 0; i < count; ++i) shapes.push_back(AnyShape());
    return shapes;
  }

  /// A node with some of `shapes` placed on it.
  NodeState UsedNode(int models, const std::vector<Shape>& shapes) {
    NodeState node = AnyNode(models);
    for (const Shape& shape : shapes) {
      if (Below(3) == 0 && Fits(node, shape))
        Take(node, shape,
             shape.gpus == 0 ? GpuPlace() : (Below(2) == 0 ? RoomiestGpus(node, shape) : FirstGpus(node, shape)));
    }
    return node;
  }

 private:
  std::uint64_t state_;
};

}  // namespace divvy::placement
