// Empties GPUs: for jobs with whole GPUs, when they are withheld, and when their requests exceed their capacity.
#pragma once

#include <cstdint>
#include <string>

#include "sharing/planner/tenant_mover.h"

namespace divvy::sharing {

class Evacuation {
 public:
  Evacuation(NodeOccupancy& node, ActionTracker& actions, TenantMover& mover)
      : node_(node), actions_(actions), mover_(mover) {}

  /// Reports a failure for each tenant that is on a GPU that cannot be used.
  void ReportUnusable();
  void EmptyWholes();
  void EmptyWithheld();
  /// Moves tenants away from a GPU on which they request more memory than it has, after a tenant was resized or the GPU
  /// has lost capacity.
  void Uncrowd();

 private:
  void EmptyWhole(std::uint64_t job, GpuSet gpus);
  bool LeaveWithheld(Tenant& tenant);
  std::string WhoBlocks(GpuSet gpus) const;

  NodeOccupancy& node_;
  ActionTracker& actions_;
  TenantMover& mover_;
};

/// Returns the longest time until all tenants have left these GPUs, or Duration::max() if one of them cannot leave (see
/// SharePlanner::RepackBound).
Duration RepackBound(const NodeOccupancy& node, GpuSet gpus);

}  // namespace divvy::sharing
