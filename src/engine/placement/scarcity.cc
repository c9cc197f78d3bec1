#include "engine/placement/scarcity.h"

#include <map>
#include <utility>

namespace divvy::placement {
namespace {

// The demand at which a model's own figure counts as much as the average: four requests of eight GPUs.
constexpr double kPriorParts = 32 * kGpuParts;

std::vector<double> Contested(const Demand& demand, const std::vector<std::int64_t>& capacity_parts, double requests) {
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
    // A request that accepts every GPU model makes none of them scarce.
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

}  // namespace

std::vector<double> ScarcityByModel(const Demand& demand, const std::vector<std::int64_t>& capacity_parts,
                                    double requests, const std::vector<int>& alike) {
  if (alike.empty()) return Contested(demand, capacity_parts, requests);
  std::map<std::pair<int, std::vector<bool>>, std::size_t> groups;
  std::vector<std::size_t> group_of;
  std::vector<std::int64_t> capacity;
  std::vector<ModelSet> members;
  for (std::size_t m = 0; m < capacity_parts.size(); ++m) {
    std::vector<bool> allowed;
    for (const auto& [shape, weight] : demand) allowed.push_back(((shape.models >> m) & 1) != 0);
    group_of.push_back(groups.try_emplace({alike[m], std::move(allowed)}, groups.size()).first->second);
    capacity.resize(groups.size());
    members.resize(groups.size());
    capacity[group_of[m]] += capacity_parts[m];
    members[group_of[m]] |= ModelSet{1} << m;
  }
  Demand of_groups = demand;
  for (auto& [shape, weight] : of_groups) {
    ModelSet allowed = 0;
    for (std::size_t group = 0; group < members.size(); ++group) {
      if ((shape.models & members[group]) != 0) allowed |= ModelSet{1} << group;
    }
    shape.models = allowed;
  }
  const std::vector<double> contested = Contested(of_groups, capacity, requests);
  std::vector<double> of_models;
  for (const std::size_t group : group_of) of_models.push_back(contested[group]);
  return of_models;
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
