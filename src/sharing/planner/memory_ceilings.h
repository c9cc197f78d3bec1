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
  /// Handles a change of the memory that the tenant uses on its device number `device`.
  void OnUse(TenantId id, unsigned device);
  /// Handles the end of a SetCeiling order: the tenant's ceiling, the memory that it may use on this device now, is
  /// `bytes`.
  void OnSet(const SetCeiling& set, Bytes bytes);

  /// Orders that the tenant's ceiling on this device is lowered to `bytes`. Until OnSet reports that this is done,
  /// plans count the ceiling that it has now.
  void Lower(Tenant& tenant, unsigned device, Bytes bytes);
  bool IsLowering(TenantId id, unsigned device) const { return lowering_.contains({id, device}); }
  /// Orders lower ceilings for tenants other than `except` (null: for all), until `needed` bytes will be free on the
  /// GPU or no ceiling there can be lowered further.
  void LowerIdle(GpuIndex gpu, Bytes needed, const Tenant* except);
  /// Raises the tenant's ceiling on this device to `ceiling` bytes, because it needs `need` bytes in total. For a
  /// moment the ceiling is not lowered below `need`, so that the tenant can use the memory.
  void Grant(Tenant& tenant, unsigned device, Bytes ceiling, Bytes need);

  /// Returns to how many bytes the tenant's ceiling on this device may be lowered: the memory in use, or what it was
  /// granted a moment ago if that is more.
  Bytes FloorOf(const Tenant& tenant, unsigned device) const;
  /// Returns by how many bytes the ceilings of the tenants on the GPU, except `except`, could be lowered in total.
  Bytes Slack(GpuIndex gpu, const Tenant* except) const;
  /// Returns true if the ceiling of a tenant other than `owner` on this GPU was raised a moment ago, and the tenant
  /// does not use all of that memory yet. Then schedules a decision for the end of that moment.
  bool IsGrantUnused(GpuIndex gpu, const Tenant* owner);
  /// Returns true if an order that is being carried out will free memory on the GPU.
  bool IsBeingFreed(GpuIndex gpu) const;

 private:
  NodeOccupancy& node_;
  ActionTracker& actions_;
  std::set<DeviceKey> lowering_;
  std::map<DeviceKey, TimedNeed> granted_;  // Not lowered before the process had time to use it.
};

}  // namespace divvy::sharing
