// The memory that tenants on their GPUs may use beyond what they use now: lowers ceilings where others need room,
// except for grants so recent that the process could not use them yet.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "sharing/planner/node_occupancy.h"
#include "sharing/planner/order_tracker.h"

namespace divvy::sharing {

/// A device of a tenant.
using DeviceKey = std::pair<TenantId, unsigned>;

/// An amount of memory that counts until a time.
struct TimedNeed {
  Bytes need;
  Time until = kNoTime;
};

class MemoryCeilings {
 public:
  MemoryCeilings(NodeOccupancy& node, ActionTracker& actions) : node_(node), actions_(actions) {}

  void BeginDecision();
  void RemoveTenant(TenantId id);
  /// The tenant's reported use has changed.
  void OnUse(TenantId id, unsigned device);
  /// The SetCeiling order has ended with a ceiling of `bytes`.
  void OnSet(const SetCeiling& set, Bytes bytes);

  /// Requests a lower ceiling. Until OnSet reports that it is set, plans still count the higher one.
  void Lower(Tenant& tenant, unsigned device, Bytes bytes);
  bool IsLowering(TenantId id, unsigned device) const { return lowering_.contains({id, device}); }
  /// Lowers ceilings of tenants other than `except` until `needed` bytes will be free on the GPU, or none is left that
  /// can be lowered.
  void LowerIdle(GpuIndex gpu, Bytes needed, const Tenant* except);
  /// Raises the ceiling now, for a tenant that needs `need` bytes in total; it is not lowered below that for a moment.
  void Grant(Tenant& tenant, unsigned device, Bytes ceiling, Bytes need);

  /// Returns the lowest ceiling that the tenant's use and its recent grants allow.
  Bytes FloorOf(const Tenant& tenant, unsigned device) const;
  /// Returns by how much the ceilings on the GPU could be lowered.
  Bytes Slack(GpuIndex gpu, const Tenant* except) const;
  /// Returns true if a tenant other than `owner` still has to use a recent grant there. Decides again when that ends.
  bool IsGrantUnused(GpuIndex gpu, const Tenant* owner);
  /// Returns true if an order in flight will free memory there.
  bool IsBeingFreed(GpuIndex gpu) const;

 private:
  NodeOccupancy& node_;
  ActionTracker& actions_;
  std::set<DeviceKey> lowering_;
  std::map<DeviceKey, TimedNeed> granted_;  // Not lowered before the process had time to use it.
};

}  // namespace divvy::sharing
