// Finds GPUs for tenants that have none: new ones, and parked ones that wake or may return.
#pragma once

#include <vector>

#include "sharing/planner/repayment.h"

namespace divvy::sharing {

class SeekerPlacement {
 public:
  SeekerPlacement(NodeOccupancy& node, ActionTracker& actions, MemoryCeilings& ceilings, TenantMover& mover,
                  Repayment& repayment)
      : node_(node), actions_(actions), ceilings_(ceilings), mover_(mover), repayment_(repayment) {}

  /// Finds GPUs for tenants that have none: new ones, and parked ones that wake. `right`: kRequest for tenants whose
  /// memory is within their request, kLoan for those that need more.
  void PlaceSeekers(Right right);

 private:
  void PlaceSeeker(Tenant& tenant, bool is_first);
  void PlaceParked(Tenant& tenant, std::vector<std::vector<GpuIndex>> places);
  bool SwapIn(Tenant& tenant, const std::vector<GpuIndex>& to);
  std::vector<Tenant*> WhoMakesWay(GpuIndex gpu, Bytes needed);

  NodeOccupancy& node_;
  ActionTracker& actions_;
  MemoryCeilings& ceilings_;
  TenantMover& mover_;
  Repayment& repayment_;
};

}  // namespace divvy::sharing
