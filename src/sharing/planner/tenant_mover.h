// Places, moves, parks and wakes single tenants, and applies the results to NodeOccupancy.
#pragma once

#include <string>
#include <vector>

#include "sharing/planner/memory_ceilings.h"
#include "sharing/planner/packing.h"

namespace divvy::sharing {

/// Result of making room: done, orders in flight, or impossible.
enum class Room { kReady, kUnderWay, kNone };

class TenantMover {
 public:
  TenantMover(NodeOccupancy& node, ActionTracker& actions, MemoryCeilings& ceilings)
      : node_(node), actions_(actions), ceilings_(ceilings) {}

  void PlaceNew(Tenant& tenant, const std::vector<GpuIndex>& to);
  /// Starts to move the tenant to these GPUs. Returns kUnderWay if other tenants' memory ceilings must be lowered
  /// first. The caller has checked that the tenant may be moved. `lodges`: the tenant only uses idle time there, so its
  /// request is not reserved there and need not fit (Tenant::lodges_on).
  Room StartMove(Tenant& tenant, const std::vector<GpuIndex>& to, bool lodges = false);
  /// Moves a tenant that lodges (Tenant::lodges_on) back to its planned GPUs, and reserves its request there.
  Room SendHome(Tenant& tenant);
  void StartPark(Tenant& tenant, ParkedBy by, const std::string& why);
  void StartWake(Tenant& tenant, const std::vector<GpuIndex>& to);
  /// Starts the moves of a plan for the problem `packing`; `to` has the GPUs of each tenant. If the tenants block each
  /// other, parks one of them first, preferably one on the GPUs `leaving`, unless `may_park` is false. Returns false if
  /// no order is in flight and none can be issued.
  bool CarryOut(const NodePacking& packing, const std::vector<std::vector<int>>& to, GpuSet leaving,
                bool may_park = true);

  void OnMoved(Tenant& tenant, const Done& done, Time now);
  void OnParked(Tenant& tenant, ParkedBy by, const Done& done, Time now);
  void OnWoken(Tenant& tenant, const Done& done, Time now);
  void OnLostEnded(TenantId id, Time now);

 private:
  void OnLost(Tenant& tenant, const std::string& why);
  void Measure(const Tenant& tenant, const Done& done, int ways);

  NodeOccupancy& node_;
  ActionTracker& actions_;
  MemoryCeilings& ceilings_;
};

}  // namespace divvy::sharing
