#include "engine/scheduler/slice_place.h"

#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "engine/gpu_type.h"
#include "engine/scheduler/translate.h"
#include "model/gpus/slice_counts.h"

namespace divvy {

static_assert(placement::kMigComputeSlices == kComputeSlices && placement::kMigMemorySlices == kMemorySlices);

// Takes the smallest profile of each model and sorts models by it, the smallest first.
std::vector<core::AtSpeed> Kinds::BySlice(const Request& request) const {
  std::map<std::pair<int, int>, std::vector<std::string>> by_size;
  for (const auto& [model, profiles] : slices_) {
    if (!MatchesGpuType(request.gpu_type, model)) continue;
    std::optional<std::pair<int, int>> smallest;
    for (const SliceProfile& profile : profiles) {
      if (!IsSuchSlice(profile, request.slice) || !placement::MigProfileOf(profile.compute, profile.size)) continue;
      const std::pair size(profile.size, profile.compute);
      if (!smallest || size < *smallest) smallest = size;
    }
    if (smallest) by_size[*smallest].push_back(model);
  }
  std::vector<core::AtSpeed> sets;
  for (const auto& [size, models] : by_size) {
    const placement::MigProfile profile = *placement::MigProfileOf(size.second, size.first);
    sets.push_back({Join(models, "|"), 1000, placement::SliceShape(profile).parts, profile});
  }
  return sets;
}

core::GpuPlace PlaceIn(const NodePlace& place) {
  if (!place.slice.any()) return {place.gpus};
  return {place.gpus, static_cast<std::uint8_t>(((1u << place.slice.size) - 1) << place.slice.start)};
}

GpuSlice SliceOf(placement::MigProfile profile, const core::GpuPlace& place) {
  return {std::string(placement::MigProfileName(profile)), placement::ComputeSlices(profile),
          placement::MemorySlices(profile), std::countr_zero(place.slices)};
}

}  // namespace divvy
