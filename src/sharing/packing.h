// A repack problem built from the ledger, with the mapping from search indices to GPUs and tenants.
#pragma once

#include <algorithm>
#include <vector>

#include "sharing/ledger.h"
#include "sharing/repack.h"

namespace divvy::sharing {

struct SharePlanner::Packing {
  PackProblem problem;
  std::vector<GpuIndex> gpus;     // The GPU of each entry of problem.gpus.
  std::vector<TenantId> tenants;  // The tenant of each entry of problem.tenants.

  std::size_t NumberOf(TenantId id) const {
    return static_cast<std::size_t>(std::find(tenants.begin(), tenants.end(), id) - tenants.begin());
  }
  int NumberOfGpu(GpuIndex gpu) const {
    return static_cast<int>(std::find(gpus.begin(), gpus.end(), gpu) - gpus.begin());
  }
  std::vector<GpuIndex> GpusOf(const std::vector<int>& numbers) const {
    std::vector<GpuIndex> out;
    for (const int number : numbers) out.push_back(gpus[static_cast<std::size_t>(number)]);
    return out;
  }
};

}  // namespace divvy::sharing
