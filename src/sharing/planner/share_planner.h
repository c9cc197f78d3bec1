// Plans the sharing of one node: decides which GPU each tenant is on and how much memory it may use. It also decides
// about lending, repaying, moving, parking and waking.
//
// Facts go in through the methods below, and each Decide returns the orders that follow from them. The planner does
// nothing in between. In each iteration of its loop, the keeper applies all facts, calls Decide, executes the orders
// and reports them with OnDone. It repeats this until Decide returns no orders. An order that ends immediately, such as
// SetCeiling, is reported and followed by Decide at once. The same facts and times give the same orders.
//
// Invariants after each call (see CheckInvariants):
//  * The ceilings on a GPU, including those of tenants on their way to it, sum to at most its capacity. Only a residual
//    that the driver reports later can exceed it; that excess is repaid first.
//  * The memory and time requests on a GPU also fit, so that every request can be honoured.
//  * No new tenant is placed on a GPU that is withheld or unusable.
//  * All GPUs of one tenant are different.
//
// Each rule has an owner with its own state: TenantMover, MemoryCeilings, Repayment, Evacuation, PinRequests,
// MemoryRequests, SeekerPlacement, UserCommands and Rebalancer. They share the facts in NodeOccupancy and write their
// orders to ActionTracker.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sharing/action.h"
#include "sharing/facts.h"
#include "sharing/settings.h"

namespace divvy::sharing {

class SharePlanner {
 public:
  explicit SharePlanner(const Settings& settings = {});
  SharePlanner(SharePlanner&&) noexcept;
  SharePlanner& operator=(SharePlanner&&) noexcept;
  ~SharePlanner();

  // --- Facts about GPUs ----------------------------------------------------------------------------------------------

  /// Adds or updates a GPU. Add all GPUs once, before any tenant. Later calls change capacity, speed and usability of a
  /// known GPU. `whole_job` and `is_ready` are ignored.
  void SetGpu(const Gpu& gpu);
  /// Announces that `job` is about to start on all of these GPUs. Tenants are moved away, and Ready or Failed follows.
  /// After a restart, call it again for the same job: Ready is issued again.
  void AcquireExclusive(std::uint64_t job, GpuSet gpus);
  /// Ends AcquireExclusive: the job has ended, or will not start. Tenants may use the GPUs again.
  void ReleaseExclusive(std::uint64_t job);

  // --- Facts about tenants -------------------------------------------------------------------------------------------

  /// Adds a new tenant: id, share, planned GPUs and reasons why it cannot move. A Place order follows, immediately or
  /// after a repack. Errors: an unknown GPU, two devices on one GPU, an invalid share, or planned requests that exceed
  /// a GPU.
  Status AddTenant(const Tenant& tenant);
  /// Adds a tenant that existed before the keeper started, in the state that its shared-memory page reports. If a move
  /// was interrupted, pass kHere if its memory is still on its GPUs, otherwise kParked. Set parked_by to kPlanner if it
  /// shall wake without a command or a waiting program.
  Status LoadTenant(const Tenant& tenant);
  /// Removes a tenant whose processes have ended. Its open requests are dropped.
  void RemoveTenant(TenantId id);
  /// Changes a tenant's share; orders follow. Errors as for AddTenant, with nothing changed. If the share gets smaller,
  /// memory that the tenant does not use is taken at once. The rest counts as borrowed and is taken as it is freed.
  /// `planned_gpus`: the new planned GPUs, as many as the tenant has devices; std::nullopt keeps the present ones.
  Status Resize(TenantId id, const Share& share, std::optional<GpuSet> planned_gpus = std::nullopt);
  /// Reports the memory that the tenant uses on its device number `device`. Call it before RequestMemory, and again
  /// when the tenant's programs are blocked for a move or park: that value is the amount to restore later. Ignored
  /// while the tenant is parked.
  void SetUse(TenantId id, unsigned device, Bytes used_and_residual);
  /// Reports how many bytes of a parking tenant are still on its GPU. Waiting tenants can use the freed part before
  /// parking ends. Ignored for all other tenants.
  void SetLeft(TenantId id, unsigned device, Bytes left);
  /// `is_active`: since the last call, the tenant launched work or waited for its turn. An active parked tenant wakes.
  void SetActivity(TenantId id, bool is_active, Time now);
  /// Call once a second with the share of a GPU's time that the tenant had: of the GPU where it had most.
  void SetTimeUsed(TenantId id, GpuShare in_last_second);
  /// Sets why a tenant cannot move or park; empty means that it can. The library never withdraws a reason; the keeper
  /// does, after a change of backend.
  void SetCannot(TenantId id, std::string why_cannot_move, std::string why_cannot_park);
  /// A process requests `bytes` of memory beyond what its tenant uses now; report that use with SetUse first. Exactly
  /// one Answer with the same `request` follows, unless the tenant is removed before.
  void RequestMemory(TenantId id, unsigned device, Bytes bytes, std::uint64_t request);
  /// Drops a request of RequestMemory or Pin, because its process has ended.
  void ForgetRequest(TenantId id, std::uint64_t request);
  /// Announces a call that will bind the tenant to its GPUs permanently; the caller holds that call back. The tenant
  /// first moves to its planned GPUs, and borrowed memory is reclaimed, as far as possible. Exactly one Answer
  /// (granted) follows, unless the tenant is removed before.
  void Pin(TenantId id, std::uint64_t request);
  /// Reports that a program of the parked tenant waits in a call that needs the GPU, so the tenant should wake.
  void WantWake(TenantId id);

  // --- User commands: errors name the problem and a remedy -----------------------------------------------------------

  Status ParkByUser(TenantId id);
  Status WakeByUser(TenantId id);
  /// Moves the tenant to these GPUs for a user (`divvy move`). `to` has as many GPUs as the tenant has devices. Each
  /// GPU that changes must be usable, not withheld, of the same kind and have room for the request.
  Status MoveByUser(TenantId id, const std::vector<GpuIndex>& to);

  // --- Displacement of tenants with whole GPUs, by the cluster's scheduler -------------------------------------------

  /// Parks the tenant, and reserves no GPU for it until Return. Tenant::is_displaced is set at once, and cleared again
  /// if the park fails; the tenant then keeps its GPUs. Errors: it cannot be parked now. Idempotent.
  Status Displace(TenantId id);
  /// Reserves these GPUs for the tenant, in the order of its devices, and wakes it there once others have left them. If
  /// it cannot be woken, it is displaced again. Errors: the GPUs do not suit it, or it is not parked and has others.
  Status Return(TenantId id, const std::vector<GpuIndex>& to);

  /// Returns "" or why the tenant cannot be parked now.
  std::string WhyKeepsGpu(TenantId id) const;

  // --- Decisions -----------------------------------------------------------------------------------------------------

  /// Reports the result of the order with this id. Must be called once for each order that has an id.
  void OnDone(std::uint64_t action_id, const Done& done, Time now);
  /// The processes of a lost tenant have ended, and its damaged memory with them. The tenant remains, since its job may
  /// start new processes: it counts as parked with nothing to restore, and gets GPUs like a tenant that wakes. Ignored
  /// if the tenant is not lost.
  void OnLostEnded(TenantId id, Time now);
  std::vector<IssuedAction> Decide(Time now);
  /// Returns when Decide must be called again even if nothing was reported; kNever if it need not.
  Time next_decision() const;

  // --- Queries -------------------------------------------------------------------------------------------------------

  const std::map<TenantId, Tenant>& tenants() const;
  const Tenant* Find(TenantId id) const;
  const std::map<GpuIndex, Gpu>& gpus() const;
  /// Returns the GPU's capacity minus the ceilings of all tenants on it and on their way to it.
  Bytes Free(GpuIndex gpu) const;
  /// Returns the longest time that a job waits until tenants have left these GPUs. It covers copying their bytes to the
  /// host and back, plus Settings::slack. Returns Duration::max() if a tenant cannot leave.
  Duration RepackBound(GpuSet gpus) const;
  /// Returns why a parked or arriving tenant is not on a GPU, or why a request has no answer yet; "" if neither
  /// applies.
  std::string WhyWaits(TenantId id) const;
  /// Returns true while a tenant is being moved, parked, woken or asked to free memory, which may soon make room for
  /// waiting tenants.
  bool IsAtWork() const;
  /// Returns a description of the first inconsistency in the state; "" if there is none. Computes every sum again from
  /// the tenants.
  std::string CheckInvariants() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace divvy::sharing
