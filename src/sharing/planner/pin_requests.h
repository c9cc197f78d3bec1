// Tenants that are about to become immovable: their calls wait until the tenant is on its planned GPUs without loans,
// or as close to that as possible.
#pragma once

#include <cstdint>
#include <map>

#include "sharing/planner/repayment.h"

namespace divvy::sharing {

class PinRequests {
 public:
  PinRequests(NodeOccupancy& node, ActionTracker& actions, MemoryCeilings& ceilings, TenantMover& mover,
              const Repayment& repayment)
      : node_(node), actions_(actions), ceilings_(ceilings), mover_(mover), repayment_(repayment) {}

  void BeginDecision();
  void RemoveTenant(TenantId id);
  void Add(TenantId id, std::uint64_t request);
  void Forget(TenantId id, std::uint64_t request);
  void Settle();
  /// Returns true if the tenant's request to be bound to its GPUs (SharePlanner::Pin) has no answer yet.
  bool IsWaiting(TenantId id) const;
  /// Returns true from the tenant's request to be bound to its GPUs until its shared-memory page can be expected to
  /// report that it is bound.
  bool IsAboutToBeBound(TenantId id) const { return binding_.contains(id) || IsWaiting(id); }

 private:
  bool IsSettled(Tenant& tenant);
  bool IsComingHome(Tenant& tenant);
  bool IsRepaying(Tenant& tenant);

  NodeOccupancy& node_;
  ActionTracker& actions_;
  MemoryCeilings& ceilings_;
  TenantMover& mover_;
  const Repayment& repayment_;
  std::map<std::uint64_t, TenantId> pins_;  // Keyed by request.
  std::map<TenantId, Time> binding_;        // Answered pins: until when the page may still not report the binding.
};

}  // namespace divvy::sharing
