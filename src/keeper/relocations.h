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
  /// `carry_out` is called with each of the planner's orders that had to wait until a move of its tenant ended.
  Relocations(KeeperContext& shared, TenantUse& use, PendingRequests& pending,
              std::function<void(const sharing::IssuedAction&)> carry_out);
  /// Gives up all moves, parks and wakes in progress.
  ~Relocations();

  /// Queries whether the driver can save processes in host memory. No tenant leaves its GPUs before that is known.
  void Probe();
  /// Carries out an order to move, park or wake the tenant. If the tenant cannot follow it yet, it is carried out
  /// later.
  void CarryOut(ManagedTenant& kept, const sharing::IssuedAction& issued);
  void OnCame(ManagedTenant& kept, Slot slot);
  void OnGone(ManagedTenant& kept, Slot slot);
  /// For a tenant that the earlier keeper was moving when it ended: starts to bring the tenant's processes back to its
  /// GPUs. Does nothing as long as one of them has neither connected to this keeper nor ended; call it again then.
  void BringBack(ManagedTenant& kept);
  /// If a move has damaged the tenant's memory and its processes have ended, lets the tenant continue without that
  /// memory.
  void EndLoss(ManagedTenant& kept);
  /// Writes to the tenant's record whether it is displaced: parked without a GPU being reserved for it. Call this after
  /// each decision of the planner.
  void NoteDisplacement(ManagedTenant& kept);
  /// Returns why the host's memory has no room for the tenant's GPU memory; "" if it has. Even a move between GPUs
  /// passes through host memory.
  std::string WhyNoHostRoom(const ManagedTenant& kept) const;

  std::uint64_t moves() const { return moves_; }
  std::uint64_t parks() const { return parks_; }

 private:
  void Relocate(ManagedTenant& kept, std::uint64_t action, Passage passage, const std::vector<GpuIndex>& to);
  void StartRelocation(ManagedTenant& kept, Passage passage, RelocationPlan plan, const std::vector<int>& to);
  /// Writes the UUIDs of the tenant's GPUs from its record to its shared-memory page.
  void SetPlaces(ManagedTenant& kept);
  void WatchLeaving(TenantId id);
  void EndRelocation(TenantId id, Passage passage, const std::vector<int>& to, sharing::Done done);
  /// Reports the tenant's move, park or wake, for the histories of its job and of its GPUs.
  void NotePassage(ManagedTenant& kept) const;
  /// Wakes the tenant if all its processes are connected to this keeper.
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
