// Requests of the node that wait until a tenant has reached a state: placed, parked, or on certain GPUs. A tenant that
// uses MPS is placed once its servers have started.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keeper/drivers/mps.h"
#include "keeper/keeper_context.h"

namespace divvy::keeper {

class PendingRequests {
 public:
  explicit PendingRequests(KeeperContext& shared)
      : shared_(shared), mps_(shared.loop, shared.options.mps_program, shared.options.directory) {}

  /// Answers the node's requests about this tenant that are fulfilled, and those that cannot be fulfilled now.
  void Settle(ManagedTenant& kept);
  /// Answers the node's requests about this tenant with a failure: those for `goal` (placed, parked, ...), or all if it
  /// is not set.
  void Fail(ManagedTenant& kept, std::optional<Goal> goal, const std::string& why);
  /// Answers the node's requests about this tenant that have waited too long with a failure.
  void GiveUp(ManagedTenant& kept);
  void RemoveTenant(TenantId id) { mps_.Leave(id); }

 private:
  /// Answers a request to park the tenant, or to let it return to its GPUs, with a failure, because it cannot be
  /// fulfilled. Returns true.
  bool FailDisplacement(std::uint64_t id, const ManagedTenant& kept) const;
  void AnswerAdded(std::uint64_t id, ManagedTenant& kept);
  bool HasEnteredMps(ManagedTenant& kept);
  std::vector<std::string> EnvironmentOf(const ManagedTenant& kept) const;
  std::string WhyNotBack(const sharing::Tenant& tenant) const;

  KeeperContext& shared_;
  MpsServers mps_;
};

}  // namespace divvy::keeper
