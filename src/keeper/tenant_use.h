// Observes how tenants use their GPUs: memory, activity, shares of GPU time, and processes that bypass the sharing
// library. Reports it to the planner, with the reasons why a tenant cannot move.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "keeper/drivers/gpu_watch.h"
#include "keeper/keeper_context.h"

namespace divvy::keeper {

class TenantUse {
 public:
  explicit TenantUse(KeeperContext& shared) : shared_(shared) {}

  void OnSights(const std::vector<GpuSight>& sights);
  /// Sets which processes on the GPUs belong to which tenant, as the node's daemon or agent reports it.
  void SetProcesses(const std::vector<wire::KeeperProcess>& processes);
  /// Tells the Tenant object how much memory each process of the tenant is assumed to use on a GPU beyond its own
  /// allocations. This holds until the driver has reported the process.
  void ExpectResiduals(const ManagedTenant& kept) const;
  /// Reports the tenant's memory in use to the planner, unless the tenant is parked or moving.
  void RefreshUse(ManagedTenant& kept);
  /// Reports the memory in use of all tenants to the planner.
  void RefreshAll();
  /// Reports to the planner why the tenant cannot be moved or parked, or that it can.
  void SetCannot(ManagedTenant& kept);
  /// Reports to the planner whether the tenant used its GPU, or waited for it, since the last call.
  void CheckActivity(ManagedTenant& kept);
  /// If a second has passed since the last sample, measures the share of GPU time that each tenant had, and returns
  /// true.
  bool SampleShares();

 private:
  void OnSight(const GpuSight& sight);
  bool IsOf(const GpuSight::Process& seen, const ManagedTenant& kept) const;
  void BearWithNewcomers(ManagedTenant& kept) const;
  GpuShare ShareOfTime(const ManagedTenant& kept, unsigned device, Duration turns, Duration since) const;

  KeeperContext& shared_;
  std::map<GpuIndex, int> utilisation_;
  std::map<std::int64_t, wire::KeeperProcess> processes_;  // By pid.
  // Largest residual of any process of this user on this GPU so far, in bytes. Not of other users: they could raise it.
  std::map<std::pair<std::int64_t, GpuIndex>, std::uint64_t> expected_residual_;
  Time sampled_at_ = kNoTime;
};

}  // namespace divvy::keeper
