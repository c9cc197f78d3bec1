// Tenants with whole GPUs that are parked so that other jobs can have their GPUs, and their return to GPUs of the node.
#pragma once

#include <vector>

#include "sharing/planner/tenant_mover.h"

namespace divvy::sharing {

class Displacements {
 public:
  Displacements(NodeOccupancy& node, ActionTracker& actions, TenantMover& mover)
      : node_(node), actions_(actions), mover_(mover) {}

  /// Marks the tenant as displaced: ParkDisplaced parks it, and no GPU is reserved for it until Return. Errors: it
  /// cannot be parked now.
  Status Displace(TenantId id);
  /// Ends the displacement: reserves these GPUs for the tenant and wakes it there (see SharePlanner::Return).
  Status Return(TenantId id, const std::vector<GpuIndex>& to);
  /// Starts to park each displaced tenant that is on its GPUs. If it cannot be parked, it keeps its GPUs and the
  /// failure is reported.
  void ParkDisplaced();

 private:
  Status CheckModels(const Tenant& tenant, const std::vector<GpuIndex>& to) const;

  NodeOccupancy& node_;
  ActionTracker& actions_;
  TenantMover& mover_;
};

}  // namespace divvy::sharing
