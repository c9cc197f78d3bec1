#include "engine/growth/packing.h"

#include <algorithm>
#include <tuple>

namespace divvy::growth {

void TakeRoom(placement::NodeState& room, const placement::Shape& shape) {
  placement::Take(room, shape, placement::TightestGpus(room, shape));
}

double GpusOf(const placement::Shape& shape) { return static_cast<double>(shape.gpu_parts()) / placement::kGpuParts; }

double GpusOf(const Demand& demand) {
  double gpus = 0;
  for (const TaskNeed& need : demand.tasks) gpus += need.count * GpusOf(need.shape);
  return gpus;
}

bool IsSingle(const Demand& demand) { return demand.tasks.size() == 1 && demand.tasks.front().count == 1; }

Duration RunTimeOf(const GrowthInput& input, const Demand& demand) {
  return demand.run_time > Duration(0) ? demand.run_time : input.rules.assumed_run_time;
}

Money HourlyOf(const Catalogue& catalogue, std::span<const PackedNode> nodes) {
  Money sum;
  for (const PackedNode& node : nodes) sum += catalogue.offers()[node.offer].hourly;
  return sum;
}

std::vector<TaskNeed> LargestFirst(std::span<const TaskNeed> tasks) {
  std::vector<TaskNeed> sorted(tasks.begin(), tasks.end());
  std::ranges::stable_sort(sorted, std::greater(), [](const TaskNeed& need) {
    return std::tuple(need.shape.gpu_parts(), need.shape.cpu_milli, need.shape.memory_mib);
  });
  return sorted;
}

}  // namespace divvy::growth
