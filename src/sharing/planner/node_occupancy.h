// The tenants and GPUs of one node: which tenant is on which GPU, what it requests and uses there, and what currently
// keeps it from moving. All parts of the planner read it. Each change of a tenant's state, place or ceiling is made by
// one of them: TenantMover (state and place), MemoryCeilings and MemoryRequests (ceilings). Copies are independent.
//
// SharePlanner documents the functions that it passes on unchanged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "sharing/facts.h"
#include "sharing/settings.h"

namespace divvy::sharing {

/// Sums over the tenants on one GPU and on their way to it.
struct GpuLoad {
  Bytes ceilings;
  Bytes requests;
  std::int32_t compute = 0;
  int tenants = 0;
};

class NodeOccupancy {
 public:
  explicit NodeOccupancy(const Settings& settings) : settings_(settings) {}

  // --- Facts ---------------------------------------------------------------------------------------------------------

  void SetGpu(const Gpu& gpu);
  void AcquireExclusive(std::uint64_t job, GpuSet gpus);
  void ReleaseExclusive(std::uint64_t job);
  Status AddTenant(const Tenant& tenant);
  Status LoadTenant(const Tenant& tenant);
  void RemoveTenant(TenantId id);
  Status Resize(TenantId id, const Share& share, std::optional<GpuSet> planned_gpus);
  /// Sets the memory that a tenant uses on its device number `device` (from 0): its allocations, and the residual that
  /// the driver reports beyond them. Returns false if the value was ignored: the tenant or device is unknown, or the
  /// tenant is neither on its GPU nor leaving it.
  bool SetUse(TenantId id, unsigned device, Bytes used_and_residual);
  void SetActivity(TenantId id, bool is_active, Time now);
  void SetTimeUsed(TenantId id, GpuShare in_last_second);
  void SetCannot(TenantId id, std::string why_cannot_move, std::string why_cannot_park);
  void WantWake(TenantId id);
  /// Sets the time of the decision that begins, and forgets refusals that have ended.
  void BeginDecision(Time now);
  /// Records a refusal: the tenant is neither moved nor parked before `until`, because its last move or park failed
  /// (`why`).
  void Refuse(TenantId id, Time until, std::string why) { refusals_[id] = {until, std::move(why)}; }
  void ForgetRefusal(TenantId id) { refusals_.erase(id); }

  // --- Queries -------------------------------------------------------------------------------------------------------

  const Settings& settings() const { return settings_; }
  Time now() const { return now_; }
  std::map<GpuIndex, Gpu>& gpus() { return gpus_; }
  const std::map<GpuIndex, Gpu>& gpus() const { return gpus_; }
  std::map<TenantId, Tenant>& tenants() { return tenants_; }
  const std::map<TenantId, Tenant>& tenants() const { return tenants_; }
  /// The GPUs of each job with whole GPUs, by job.
  const std::map<std::uint64_t, GpuSet>& wholes() const { return wholes_; }
  /// Returns null if there is no such tenant.
  const Tenant* Find(TenantId id) const;
  Tenant* Find(TenantId id);
  /// Returns the tenant, or an error text for the user if there is no such tenant.
  Result<Tenant*> Lookup(TenantId id);
  /// Returns the sums over all tenants on the GPU except `except`. Cost of this and the following queries about a GPU:
  /// O(tenants).
  GpuLoad LoadOf(GpuIndex gpu, const Tenant* except = nullptr) const;
  Bytes Free(GpuIndex gpu) const;
  /// Returns the sum of the tenants' Tenant::time_used on the GPU.
  GpuShare TimeUsedOn(GpuIndex gpu) const;
  bool IsOpen(GpuIndex gpu) const;  // Usable, not withheld and without a whole job.
  bool IsIdle(const Tenant& tenant) const;
  bool HasStayed(const Tenant& tenant) const;
  std::string WhyStays(const Tenant& tenant) const;     // "" if it can be moved now.
  std::string WhyKeepsGpu(const Tenant& tenant) const;  // "" if it can be parked now.
  /// Returns why the tenant's last move or park failed; "" if it may be tried again.
  std::string WhyRefused(TenantId id) const;
  /// Returns the earliest time at which a refusal (see Refuse) ends; kNever if there is no refusal.
  Time NextRefusalEnd() const;
  /// Returns true if the tenant's requests fit on these GPUs next to those of all other tenants.
  bool RequestsFit(const Tenant& tenant, const std::vector<GpuIndex>& to) const;
  /// Returns true if the tenant's request fits on the GPU next to those of the tenants that are planned there, wherever
  /// they are now.
  bool FitsPlan(const Tenant& tenant, GpuIndex gpu) const;
  /// Checks that `to` names as many GPUs as the tenant has devices, all of this node and none twice.
  Status CheckTargets(const Tenant& tenant, const std::vector<GpuIndex>& to) const;
  bool IsAnyInFlight() const;
  /// Returns true if a program of a parked tenant waits in a call that needs the GPU.
  bool IsParkedWaiting() const;
  /// Returns when a job that had the whole GPU last left it; kNoTime if no such job has.
  Time WholeLeftAt(GpuIndex gpu) const;
  /// Returns a description of the first inconsistency in the state; "" if there is none.
  std::string CheckInvariants() const;

 private:
  struct Refusal {
    Time until = kNoTime;
    std::string why;
  };

  Status CheckShare(const Tenant& tenant) const;
  /// Returns the requests on the GPU if it had the tenant and all others that are planned there. A displaced tenant
  /// does not count, because no GPU is reserved for it. Ceilings and tenants are not counted.
  GpuLoad PlannedLoad(const Tenant& tenant, GpuIndex gpu) const;
  static Status TakePlannedGpus(GpuSet planned_gpus, Tenant& tenant);
  void NoteExcess(GpuIndex gpu);

  Settings settings_;
  Time now_ = kNoTime;
  std::map<GpuIndex, Gpu> gpus_;
  std::map<TenantId, Tenant> tenants_;
  std::map<std::uint64_t, GpuSet> wholes_;
  std::map<GpuIndex, Time> left_at_;      // When a whole job last left the GPU; kNoTime: since the last decision.
  std::map<TenantId, Refusal> refusals_;  // Recently failed moves and parks.
  std::set<GpuIndex> pushed_over_;        // GPUs over capacity due to residuals, a changed capacity, or loaded pages.
};

}  // namespace divvy::sharing
