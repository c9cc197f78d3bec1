// The policies without a demand model. Best fit, dot product, packing and clustering follow their descriptions in the
// evaluation of the FGD paper. Each gives an integer from 0 to 100; ties are decided by the fleet's order.
#include <algorithm>

#include "engine/placement/scorer.h"

namespace divvy::placement {
namespace {

// The published policies normalise by the largest node of the openb cluster.
constexpr double kReferenceCpu = 128'000;
constexpr double kReferenceGpu = 8 * kGpuParts;

/// Free room as a small score: the first 16 GPUs in thousandths of a GPU, further ones in hundredths.
constexpr Score RoomScore(std::int32_t gpu_free) {
  constexpr std::int32_t kFine = 16 * kGpuParts;
  const std::int32_t fine = std::min(gpu_free, kFine);
  return static_cast<Score>(fine / (kGpuParts / 1000) + (gpu_free - fine) / (kGpuParts / 100));
}
static_assert(RoomScore(GpuSet::kCapacity * kGpuParts) == 16'000 + 48 * 100);

/// A published score, which may be negative on a node larger than the reference; clamped at 0.
Score AtLeast0(double score) { return static_cast<Score>(std::max(score, 0.0)); }

class Pack : public Scorer {
 public:
  Score Rate(const NodeState& node, std::int64_t, const Shape& shape) const override {
    return Fits(node, shape) ? static_cast<Score>(RoomScore(GpuSet::kCapacity * kGpuParts) - RoomScore(node.gpu_free))
                             : kNoRoom;
  }
};

class Spread : public Scorer {
 public:
  Score Rate(const NodeState& node, std::int64_t, const Shape& shape) const override {
    return Fits(node, shape) ? RoomScore(node.gpu_free) : kNoRoom;
  }
  GpuPlace Choose(const NodeState& node, std::int64_t, const Shape& shape) const override {
    return RoomiestGpus(node, shape);
  }
};

class BestFit : public Scorer {
 public:
  Score Rate(const NodeState& node, std::int64_t, const Shape& shape) const override {
    if (!Fits(node, shape)) return kNoRoom;
    const double cpu_left = (node.cpu_free - shape.cpu_milli) / kReferenceCpu;
    const double gpu_left = (node.gpu_free - shape.gpu_parts()) / kReferenceGpu;
    return AtLeast0(100 * (1 - 0.5 * cpu_left - 0.5 * gpu_left));
  }
};

class DotProduct : public Scorer {
 public:
  Score Rate(const NodeState& node, std::int64_t, const Shape& shape) const override {
    if (!Fits(node, shape)) return kNoRoom;
    const double cpu = node.cpu_free / kReferenceCpu * (shape.cpu_milli / kReferenceCpu);
    const double gpu = node.gpu_free / kReferenceGpu * (shape.gpu_parts() / kReferenceGpu);
    return AtLeast0(100 * (1 - 0.5 * (cpu + gpu)));
  }
};

/// Prefers a GPU in use, the tightest first; then a node in use; a free node last.
class Packing : public Scorer {
 public:
  Score Rate(const NodeState& node, std::int64_t, const Shape& shape) const override {
    if (!Fits(node, shape)) return kNoRoom;
    if (shape.gpus == 0) return 0;
    if (shape.is_share()) {
      int tightest = kGpuParts;
      for (int gpu = 0; gpu < node.gpus; ++gpu) {
        if (FitsGpu(node, gpu, shape)) tightest = std::min<int>(tightest, RoomOfGpu(node, gpu).free_parts);
      }
      if (tightest < kGpuParts) return static_cast<Score>(std::max(50, 100 - tightest * 100 / kGpuParts));
    }
    if (node.whole < node.gpus) return static_cast<Score>(std::max(33, 50 - shape.gpus));
    return static_cast<Score>(std::max(0, 33 - node.whole));
  }
};

/// Groups requests of one kind.
class Clustering : public Scorer {
 public:
  Score Rate(const NodeState& node, std::int64_t, const Shape& shape) const override {
    if (!Fits(node, shape)) return kNoRoom;
    if (shape.gpus == 0) return 0;
    int others = 0;
    for (std::size_t kind = 1; kind < kKinds; ++kind) others += node.held[kind] > 0;
    const bool has_same = shape.gpus > 0 && node.held[static_cast<std::size_t>(KindOf(shape))] > 0;
    others -= has_same;
    const int base = has_same ? (others == 0 ? 75 : 50) : (others == 0 ? 25 : 0);
    const double left = node.gpu_free - shape.gpu_parts();
    return AtLeast0(base + 25 * (kReferenceGpu - left) / kReferenceGpu);
  }
};

}  // namespace

Score RateNode(const Scorer& scorer, const NodeState& node, std::int64_t worth, const Shape& shape) {
  if (!shape.slice) return scorer.Rate(node, worth, shape);
  return Fits(node, shape) ? static_cast<Score>(SliceScore(node, *shape.slice)) : kNoRoom;
}

GpuPlace ChooseOn(const Scorer& scorer, const NodeState& node, std::int64_t worth, const Shape& shape) {
  return shape.slice ? ChooseSlice(node, *shape.slice) : scorer.Choose(node, worth, shape);
}

GpuPlace Scorer::Choose(const NodeState& node, std::int64_t, const Shape& shape) const {
  return TightestGpus(node, shape);
}

std::unique_ptr<Scorer> MakeSimpleScorer(std::string_view name) {
  if (name == "pack") return std::make_unique<Pack>();
  if (name == "spread") return std::make_unique<Spread>();
  if (name == "sequential") return std::make_unique<AnyRoom>();
  if (name == "best-fit") return std::make_unique<BestFit>();
  if (name == "dot-prod") return std::make_unique<DotProduct>();
  if (name == "packing") return std::make_unique<Packing>();
  if (name == "clustering") return std::make_unique<Clustering>();
  return nullptr;
}

}  // namespace divvy::placement
