#include "engine/placement/scarcity.h"

namespace divvy::placement {
namespace {

// Demand that a model's own figure must rest on before it counts as much as the average: four requests of eight GPUs.
constexpr double kPriorParts = 32 * kGpuParts;

}  // namespace

std::vector<double> ScarcityByModel(const Demand& demand, const std::vector<std::int64_t>& capacity_parts,
                                    double requests) {
  const std::size_t models = capacity_parts.size();
  std::vector<double> contested(models, 0);
  double asked = 0, capacity = 0, weights = 0, all_contested = 0;
  for (const std::int64_t one : capacity_parts) capacity += static_cast<double>(one);
  for (const auto& [shape, weight] : demand) {
    const double parts = static_cast<double>(weight) * shape.gpu_parts();
    asked += parts;
    weights += static_cast<double>(weight);
    double allowed = 0;
    for (std::size_t m = 0; m < models; ++m)
      allowed += ((shape.models >> m) & 1) != 0 ? static_cast<double>(capacity_parts[m]) : 0;
    // Whoever takes every model there is contests none.
    if (allowed <= 0 || allowed >= capacity) continue;
    all_contested += parts;
    for (std::size_t m = 0; m < models; ++m) {
      if (((shape.models >> m) & 1) != 0) contested[m] += parts * static_cast<double>(capacity_parts[m]) / allowed;
    }
  }
  if (asked <= 0) return contested;
  const double on_average = all_contested / asked;
  for (std::size_t m = 0; m < models; ++m) {
    if (capacity_parts[m] == 0) continue;
    const double share = static_cast<double>(capacity_parts[m]) / capacity;
    const double observed = contested[m] / asked / share;
    const double evidence = asked / weights * requests * share;
    contested[m] = (observed * evidence + on_average * kPriorParts) / (evidence + kPriorParts);
  }
  return contested;
}

std::int64_t CpuMilliPerGpu(const Demand& demand) {
  std::int64_t cpu = 0, gpu = 0;
  for (const auto& [shape, weight] : demand) {
    if (shape.gpus == 0) continue;
    cpu += weight * shape.cpu_milli;
    gpu += weight * shape.gpu_parts();
  }
  return gpu == 0 ? 0 : cpu / gpu * kGpuParts + cpu % gpu * kGpuParts / gpu;
}

}  // namespace divvy::placement
