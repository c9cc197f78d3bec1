// A repack problem built from a node's tenants, with the mapping from search indices to GPUs and tenants.
#pragma once

#include <vector>

#include "sharing/planner/node_occupancy.h"
#include "sharing/repack.h"

namespace divvy::sharing {

/// Cost of a move in addition to its bytes.
inline constexpr Duration kControlState = 200ms;

struct NodePacking {
  PackProblem problem;
  std::vector<GpuIndex> gpus;     // The GPU of each entry of problem.gpus.
  std::vector<TenantId> tenants;  // The tenant of each entry of problem.tenants.

  std::size_t NumberOf(TenantId id) const;
  int NumberOfGpu(GpuIndex gpu) const;
  std::vector<GpuIndex> GpusOf(const std::vector<int>& numbers) const;
};

/// Builds the packing problem of the node. Tenants must leave the GPUs in `leaving`, and no tenant may move to a GPU
/// that is withheld or unusable. A moving or waking tenant counts on the GPU it goes to; one that is being parked
/// counts on no GPU. `seeker`: a tenant without GPUs that needs some; null if there is none.
NodePacking PackingOf(const NodeOccupancy& node, GpuSet leaving, const Tenant* seeker);

}  // namespace divvy::sharing
