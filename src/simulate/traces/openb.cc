#include "simulate/traces/openb.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "simulate/traces/csv_file.h"

namespace divvy::simulate {
namespace {

using placement::kAnyModel;
using placement::kGpuParts;
using placement::kMaxModels;

// The value of a whole GPU in the published files.
constexpr std::int64_t kTraceGpu = 1000;
constexpr std::int64_t kMostMilli = std::numeric_limits<std::int32_t>::max();

Result<placement::Shape> ReadShape(const CsvFile& file, const OpenbNodes& nodes) {
  placement::Shape shape;
  DIVVY_TRY(const auto cpu, file.Count("cpu_milli", kMostMilli));
  DIVVY_TRY(const auto memory, file.Count("memory_mib", kMostMilli));
  DIVVY_TRY(const auto gpus, file.Count("num_gpu", GpuSet::kCapacity));
  DIVVY_TRY(const auto milli, file.Count("gpu_milli", kTraceGpu));
  if (gpus > 0 && milli == 0) return file.Wrong("num_gpu is above 0, but gpu_milli is 0");
  shape.cpu_milli = static_cast<std::int32_t>(cpu);
  shape.memory_mib = static_cast<std::int32_t>(memory);
  shape.gpus = static_cast<std::int16_t>(gpus);
  shape.parts = static_cast<std::int16_t>(gpus > 0 ? milli * (kGpuParts / kTraceGpu) : 0);
  const std::string_view spec = file.Field("gpu_spec");
  if (spec.empty() || gpus == 0) return shape;
  shape.models = 0;
  for (const std::string_view model : Split(spec, '|')) {
    const auto known = std::ranges::find(nodes.models, model);
    if (known != nodes.models.end()) shape.models |= std::uint64_t{1} << (known - nodes.models.begin());
  }
  return shape;
}

}  // namespace

std::int64_t OpenbNodes::capacity_parts() const {
  std::int64_t sum = 0;
  for (const auto& node : nodes) sum += node.gpus * kGpuParts;
  return sum;
}

std::vector<std::int64_t> OpenbNodes::capacity_by_model() const {
  std::vector<std::int64_t> by_model(models.size(), 0);
  for (const auto& node : nodes) by_model[node.model] += node.gpus * kGpuParts;
  return by_model;
}

Result<OpenbNodes> ReadOpenbNodes(const std::string& path) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {"sn", "cpu_milli", "memory_mib", "gpu", "model"}));
  OpenbNodes result;
  for (;;) {
    DIVVY_TRY(const bool is_there, file.Next());
    if (!is_there) break;
    DIVVY_TRY(const auto cpu, file.Count("cpu_milli", kMostMilli));
    DIVVY_TRY(const auto memory, file.Count("memory_mib", kMostMilli));
    DIVVY_TRY(const auto gpus, file.Count("gpu", GpuSet::kCapacity));
    const std::string_view name = file.Field("model");
    const auto model = std::ranges::find(result.models, name) - result.models.begin();
    if (model == kMaxModels)
      return file.Wrong("more than " + std::to_string(kMaxModels) + " GPU models in one cluster");
    if (static_cast<std::size_t>(model) == result.models.size()) result.models.emplace_back(name);
    result.nodes.push_back(placement::MakeNode(static_cast<std::int32_t>(cpu), static_cast<std::int32_t>(memory),
                                               static_cast<int>(gpus), static_cast<int>(model)));
  }
  if (result.capacity_parts() == 0) return InvalidArgument(path + ": no node has a GPU");
  return result;
}

Result<std::vector<OpenbJob>> ReadOpenbJobs(const std::string& path, const OpenbNodes& nodes) {
  DIVVY_TRY(CsvFile file, CsvFile::Open(path, {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}));
  std::vector<OpenbJob> jobs;
  for (;;) {
    DIVVY_TRY(const bool is_there, file.Next());
    if (!is_there) break;
    DIVVY_TRY(const placement::Shape shape, ReadShape(file, nodes));
    jobs.push_back({std::string(file.Field("name")), shape});
  }
  const bool asks_gpus = std::ranges::any_of(jobs, [](const OpenbJob& job) { return job.shape.gpus > 0; });
  if (!asks_gpus) return InvalidArgument(path + ": no job requests a GPU");
  std::ranges::stable_sort(jobs, {}, &OpenbJob::name);
  return jobs;
}

}  // namespace divvy::simulate
