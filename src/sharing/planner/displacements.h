// Tenants with whole GPUs that are parked so that other jobs can have their GPUs, and their return to GPUs of the node.
#pragma once

#include <vector>

#include "sharing/planner/tenant_mover.h"

namespace divvy::sharing {

class Displacements {
 public:
  Displacements(NodeOccupancy& node, ActionTracker& actions, TenantMover& mover)
      : node_(node), actions_(actions), mover_(mover) {}

  /// See SharePlanner.
  Status Displace(TenantId id);
  Status Return(TenantId id, const std::vector<GpuIndex>& to);
  /// Parks tenants that were displaced while they were on their GPUs or returned to them.
  void ParkDisplaced();

 private:
  Status CheckTargets(const Tenant& tenant, const std::vector<GpuIndex>& to) const;

  NodeOccupancy& node_;
  ActionTracker& actions_;
  TenantMover& mover_;
};

}  // namespace divvy::sharing
