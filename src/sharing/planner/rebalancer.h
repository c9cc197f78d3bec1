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
  /// Some tenants use idle time of a GPU where they have no guaranteed part (Tenant::lodges_on). Sends them back to
  /// their planned GPU when the tenants planned on that GPU need its time.
  void EndLodging();
  /// If a GPU has several busy tenants, moves one of them to a GPU that is empty or has only idle tenants. Or moves a
  /// tenant that uses more than its request to a GPU most of whose time is unused. Moves one tenant at a time, and only
  /// while no other order is pending.
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
