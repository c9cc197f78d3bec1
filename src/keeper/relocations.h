// Parks, wakes and moves tenants, and brings tenants back that an earlier keeper left half-way.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "keeper/drivers/driver_helper.h"
#include "keeper/pending_requests.h"
#include "keeper/tenant_use.h"

namespace divvy::keeper {

inline constexpr std::string_view kWhyLost =
    "its memory was damaged, and its CUDA calls fail until its processes have ended";

class Relocations {
 public:
  /// `carry_out` receives orders that waited until a relocation ended.
  Relocations(KeeperContext& shared, TenantUse& use, PendingRequests& pending,
              std::function<void(const sharing::IssuedAction&)> carry_out);
  /// Ends all relocations.
  ~Relocations();

  /// Queries what the driver can do. No tenant leaves its GPUs before that: otherwise only the library could be used.
  void Probe();
  /// Carries out an order to move, park or wake, or holds it up until the tenant can follow it.
  void CarryOut(ManagedTenant& kept, const sharing::IssuedAction& issued);
  void OnCame(ManagedTenant& kept, Slot slot);
  void OnGone(ManagedTenant& kept, Slot slot);
  /// Brings back processes that were away when the earlier keeper ended, once they have dialled or ended.
  void BringBack(ManagedTenant& kept);
  /// If the tenant is lost and its processes have ended, continues without their memory.
  void EndLoss(ManagedTenant& kept);
  /// Records whether the tenant is displaced, after a decision of the planner.
  void NoteDisplacement(ManagedTenant& kept);
  /// Returns "" or why the host has no room for the tenant. Even a move between GPUs passes through host memory.
  std::string WhyNoHostRoom(const ManagedTenant& kept) const;

  std::uint64_t moves() const { return moves_; }
  std::uint64_t parks() const { return parks_; }

 private:
  void Relocate(ManagedTenant& kept, std::uint64_t action, Passage passage, const std::vector<GpuIndex>& to);
  void StartRelocation(ManagedTenant& kept, Passage passage, RelocationPlan plan, const std::vector<int>& to);
  /// Writes the GPUs of the tenant's record to its page.
  void SetPlaces(ManagedTenant& kept);
  void WatchLeaving(TenantId id);
  void EndRelocation(TenantId id, Passage passage, const std::vector<int>& to, sharing::Done done);
  /// Records the move, park or wake for the histories.
  void NotePassage(ManagedTenant& kept) const;
  /// Wakes the tenant if all its missing processes have dialled.
  void WakeIfWhole(ManagedTenant& kept);

  KeeperContext& shared_;
  TenantUse& use_;
  PendingRequests& pending_;
  DriverHelpers driver_;
  std::function<void(const sharing::IssuedAction&)> carry_out_;
  std::uint64_t moves_ = 0;
  std::uint64_t parks_ = 0;
};

}  // namespace divvy::keeper
