// Makes room on a GPU for memory that a tenant has a right to. Repaying escalates in steps (docs/sharing-design.md,
// "Repaying"): deny further loans -> lower idle ceilings -> shrink pools -> move a borrower -> park an idle borrower ->
// swap a busy borrower out for a turn -> requeue a borrower that agreed to it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sharing/planner/tenant_mover.h"

namespace divvy::sharing {

/// The basis of a tenant's claim to memory: a loan, or its request.
enum class Right { kLoan, kRequest };

class Repayment {
 public:
  Repayment(NodeOccupancy& node, ActionTracker& actions, MemoryCeilings& ceilings, TenantMover& mover)
      : node_(node), actions_(actions), ceilings_(ceilings), mover_(mover) {}

  void BeginDecision() { claimed_.clear(); }
  void RemoveTenant(TenantId id);
  void SetLeft(TenantId id, unsigned device, Bytes left);
  void OnParkEnded(TenantId id);
  void OnShrunk(TenantId id, Time now) { shrunk_[id] = now; }

  /// Makes `needed` bytes free on `gpu` for the tenant `owner`. With a null `owner`, reduces the use of an overfull GPU
  /// to its capacity. Each call takes at most one step, and none while orders are in flight. If it returns Room::kNone
  /// for `right` kRequest, it sets `*why` to the reason, unless `why` is null.
  Room MakeRoom(GpuIndex gpu, Bytes needed, const Tenant* owner, Right right, std::string* why);
  /// Moves a tenant that lodges (Tenant::lodges_on) back to its planned GPUs, where its request is guaranteed.
  Room SendHome(Tenant& tenant) { return mover_.SendHome(tenant); }
  /// Lowers each ceiling that is above its tenant's limit, but not below the memory in use. Frees memory on GPUs that
  /// are over their capacity, because the capacity changed or the driver itself uses more for the processes.
  void KeepBounds();
  /// While a tenant is being parked, lowers its ceiling to what is still on the GPU, so that tenants that wait for room
  /// there can use the rest.
  void LowerLeaving();

  /// Returns true if a tenant waits for memory on the GPU that it is guaranteed. Then no memory is lent to others
  /// there.
  bool IsClaimed(GpuIndex gpu) const { return claimed_.contains(gpu); }
  /// Returns true if the tenant was asked within the last Settings::memory_turn to free unused memory of its allocation
  /// pools.
  bool HasShrunkLately(TenantId id) const;

 private:
  bool IsMoreComing(GpuIndex gpu, const Tenant* except) const;
  bool ShrinkBorrowers(GpuIndex gpu, Bytes needed, const Tenant* owner);
  bool MoveBorrower(GpuIndex gpu, Bytes needed, const Tenant* owner);
  bool ParkBorrower(GpuIndex gpu, Bytes needed, const Tenant* owner, bool is_idle);
  bool IsRequeued(GpuIndex gpu, const Tenant* owner);
  bool RequeueBorrower(GpuIndex gpu, const Tenant* owner);
  std::vector<Tenant*> BorrowersOf(GpuIndex gpu, const Tenant* except);

  NodeOccupancy& node_;
  ActionTracker& actions_;
  MemoryCeilings& ceilings_;
  TenantMover& mover_;
  std::set<GpuIndex> claimed_;
  std::map<TenantId, Time> shrunk_;  // When the tenant was last asked to shrink.
  std::set<TenantId> requeued_;
  std::map<DeviceKey, Bytes> left_;  // Bytes of parking tenants that are still on their GPU.
};

}  // namespace divvy::sharing
