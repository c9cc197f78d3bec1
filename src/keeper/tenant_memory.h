// Memory of tenants: passes on their processes' requests, and carries out the planner's orders about ceilings, answers
// and pools.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "keeper/tenant_use.h"

namespace divvy::keeper {

class TenantMemory {
 public:
  TenantMemory(KeeperContext& shared, TenantUse& use) : shared_(shared), use_(use) {}

  void OnWant(ManagedTenant& kept, Slot slot, const share::Message& message);
  void OnPin(ManagedTenant& kept, Slot slot, const share::Message& message);
  /// Handles a process's kDone message if it answers an order to free unused pool memory (Shrink). Otherwise returns
  /// false.
  bool OnDone(TenantId id, Slot slot, const share::Message& message);
  void OnGone(ManagedTenant& kept, Slot slot);
  void RemoveTenant(TenantId id);

  void SetCeiling(std::uint64_t id, const sharing::SetCeiling& action);
  void Answer(const sharing::Answer& answer);
  void Shrink(std::uint64_t id, const sharing::Shrink& shrink);

 private:
  struct Shrinking {
    TenantId tenant;
    unsigned device = 0;
    std::uint64_t action_id = 0;
    std::set<Slot> awaited;
  };
  struct RefusedCeiling {
    std::uint64_t id = 0;
    sharing::SetCeiling action;
  };

  std::optional<std::uint64_t> NumberFor(ManagedTenant& kept, Slot slot, const share::Message& message);
  void EndShrink(std::uint64_t number);
  void RetryCeilings();

  KeeperContext& shared_;
  TenantUse& use_;
  std::map<std::uint64_t, Shrinking> shrinking_;  // Keyed by the id of kShrink.
  std::vector<RefusedCeiling> refused_ceilings_;
  std::uint64_t next_number_ = 1;
};

}  // namespace divvy::keeper
