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
  /// Sends tenants that lodge on a GPU home when its own tenants need its time.
  void EndLodging();
  /// Moves one of several busy tenants of a GPU to a GPU that is empty or has only idle tenants, or one that uses more
  /// than its request to a GPU whose tenants leave most of its time. Moves one tenant at a time, and only while nothing
  /// else is pending.
  void Spread();

 private:
  /// How much the tenants of a GPU leave. The emptiest GPUs are filled first.
  enum class Quiet { kEmpty, kIdle, kHardlyUsed };
  bool Is(GpuIndex gpu, Quiet quiet);
  bool AreAllIdle(GpuIndex gpu);
  bool IsHardlyUsed(GpuIndex gpu);
  bool HasStoodEmpty(GpuIndex gpu);
  bool SpreadFrom(GpuIndex crowded, GpuIndex quiet, bool only_borrowers);

  NodeOccupancy& node_;
  ActionTracker& actions_;
  TenantMover& mover_;
  const MemoryRequests& requests_;
  const PinRequests& pins_;
};

}  // namespace divvy::sharing
