// Jobs with whole GPUs: their requests wait until the tenants, or the MIG instances, on the GPUs have gone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "keeper/slice_tenants.h"
#include "keeper/tenant_use.h"

namespace divvy::keeper {

class WholeTakes {
 public:
  WholeTakes(KeeperContext& shared, TenantUse& use, const SliceTenants& slices)
      : shared_(shared), use_(use), slices_(slices) {}

  /// The daemon or agent has connected. Forgets the requests of its earlier connection, and releases the GPUs of jobs
  /// that ended while none was connected.
  void OnHello(const wire::KeeperHello& hello);
  /// After a restart, keeps the GPUs of the jobs in the node's record free of tenants again.
  void Recover(const std::vector<RecordedWhole>& whole_jobs);
  /// Keeps GPUs that the daemon or agent reports as given to jobs free of tenants, also those that the earlier keeper
  /// did not record.
  void TakeUp(const wire::KeeperHello& hello);
  void Take(std::uint64_t id, const wire::KeeperAcquireExclusive& take);
  /// Makes the job's GPUs available to tenants again, because the job has ended or no longer waits for them.
  void Give(JobId job);
  /// Repeats the requests for whole GPUs that had to wait for MIG instances on them.
  void RetryPostponed();
  void OnReady(std::uint64_t job);
  void OnFailed(std::uint64_t job, const std::string& why);
  /// Adds to `state` the jobs that wait until their GPUs are empty, with what they wait for and the maximum waiting
  /// time if it is known.
  void Show(wire::KeeperState& state) const;

 private:
  /// A request that waits until the tenants have left.
  struct WaitingTake {
    std::uint64_t request = 0;
    GpuSet gpus;
    Time since = kNoTime;
    Duration bound{0};  // 0: no bound is known.
  };

  void Release(JobId job);
  bool Postpone(std::uint64_t id, const wire::KeeperAcquireExclusive& take);
  Duration BoundOf(GpuSet gpus);

  KeeperContext& shared_;
  TenantUse& use_;
  const SliceTenants& slices_;
  std::map<std::uint64_t, WaitingTake> takes_;  // Keyed by the job that takes the GPUs.
  std::vector<std::pair<std::uint64_t, wire::KeeperAcquireExclusive>> postponed_;
};

}  // namespace divvy::keeper
