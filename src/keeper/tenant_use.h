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
  /// Sets the tenants' processes on GPUs as the node sees them.
  void SetProcesses(const std::vector<wire::KeeperProcess>& processes);
  /// Tells the tenant how much memory to assume for processes that the driver has not reported yet.
  void ExpectResiduals(const ManagedTenant& kept) const;
  /// Reports the memory in use, unless the tenant is away.
  void RefreshUse(ManagedTenant& kept);
  /// Reports the memory in use of all tenants.
  void RefreshAll();
  /// Reports why the tenant cannot move or park.
  void SetCannot(ManagedTenant& kept);
  /// Reports whether the tenant was active since the last call.
  void CheckActivity(ManagedTenant& kept);
  /// Samples the shares of GPU time once a second. Returns true if it did.
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
