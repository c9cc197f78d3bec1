#include <algorithm>
#include <cmath>

#include "cli/client/job_text.h"
#include "cli/top/top_frame.h"

namespace divvy::cli {
namespace {

/// Returns the used part of the GPU's memory in percent; -1 if it is unknown.
int MemoryPercent(double used_bytes, const wire::GpuView& gpu) {
  if (gpu.memory_total_bytes <= 0) return -1;
  return static_cast<int>(std::lround(100 * used_bytes / static_cast<double>(gpu.memory_total_bytes)));
}

void KeepLast(std::deque<int>& looks, int look) {
  looks.push_back(look);
  if (looks.size() > TopHistory::kLooks) looks.pop_front();
}

}  // namespace

void TopHistory::Add(const std::vector<wire::GpuView>& gpus) {
  for (const wire::GpuView& gpu : gpus) {
    Looks& looks = looks_[{gpu.node, gpu.index}];
    KeepLast(looks.use, static_cast<int>(gpu.utilisation_percent));
    KeepLast(looks.memory, IsSeen(gpu) ? MemoryPercent(static_cast<double>(gpu.memory_used_bytes), gpu) : -1);
  }
}

void TopHistory::Seed(const wire::SeriesAnswer& seen, const std::vector<wire::GpuView>& gpus) {
  for (const wire::SeriesView& series : seen.series) {
    const auto gpu = std::ranges::find_if(gpus, [&](const wire::GpuView& one) {
      return one.node == series.node && series.gpu && one.index == *series.gpu && !series.instance;
    });
    if (gpu == gpus.end()) continue;
    const bool is_use = series.metric == "gpu_utilization";
    if (!is_use && series.metric != "gpu_memory_used_bytes") continue;
    Looks& looks = looks_[{gpu->node, gpu->index}];
    // The newest second may have no sample yet.
    std::size_t count = series.mean.size();
    while (count > 0 && !series.mean[count - 1]) --count;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& mean = series.mean[i];
      if (is_use) KeepLast(looks.use, mean ? static_cast<int>(std::lround(*mean * 100)) : -1);
      else KeepLast(looks.memory, mean ? MemoryPercent(*mean, *gpu) : -1);
    }
  }
}

const TopHistory::Looks& TopHistory::Of(const wire::GpuView& gpu) const {
  static const Looks kNone;
  const auto found = looks_.find({gpu.node, gpu.index});
  return found == looks_.end() ? kNone : found->second;
}

}  // namespace divvy::cli
