// Users' commands to park, wake and move a tenant. They are checked when they are given and carried out when possible.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "sharing/planner/repayment.h"

namespace divvy::sharing {

class UserCommands {
 public:
  UserCommands(NodeOccupancy& node, ActionTracker& actions, TenantMover& mover, Repayment& repayment)
      : node_(node), actions_(actions), mover_(mover), repayment_(repayment) {}

  /// Commands of users to park, wake or move a tenant. An error text names the problem and a remedy.
  Status Park(TenantId id);
  Status Wake(TenantId id);
  Status Move(TenantId id, const std::vector<GpuIndex>& to);
  void RemoveTenant(TenantId id);
  void MoveAsRequested();
  void ParkAsRequested();

 private:
  Status CheckTarget(GpuIndex from, GpuIndex to) const;

  NodeOccupancy& node_;
  ActionTracker& actions_;
  TenantMover& mover_;
  Repayment& repayment_;
  std::map<TenantId, std::vector<GpuIndex>> requested_moves_;
  std::set<TenantId> requested_parks_;
};

}  // namespace divvy::sharing
