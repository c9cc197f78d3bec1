// Runs when nothing waits: parks tenants that have been idle for long, and spreads busy ones over empty GPUs.
#pragma once

#include "sharing/planner/memory_requests.h"

namespace divvy::sharing {

class Rebalancer {
 public:
  Rebalancer(NodeOccupancy& node, ActionTracker& actions, TenantMover& mover, const MemoryRequests& requests,
             const PinRequests& pins)
      : node_(node), actions_(actions), mover_(mover), requests_(requests), pins_(pins) {}

  void ParkIdle();
  /// Moves one of several busy tenants of a GPU to a GPU that is empty or has only idle tenants. Moves one tenant at a
  /// time, and only while nothing else is pending.
  void Spread();

 private:
  bool IsQuiet(GpuIndex gpu);
  bool HasStoodEmpty(GpuIndex gpu);
  bool SpreadFrom(GpuIndex crowded, GpuIndex quiet);

  NodeOccupancy& node_;
  ActionTracker& actions_;
  TenantMover& mover_;
  const MemoryRequests& requests_;
  const PinRequests& pins_;
};

}  // namespace divvy::sharing
