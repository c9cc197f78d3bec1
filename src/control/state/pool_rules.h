// Pools: which of a job's pools accept it, which are full, and in which one it runs.
//
// The limits of a pool are limits of a group named "pool NAME". A job that names several pools waits in those that are
// open to it. While one is full, the job is offered only to the others. While it waits, it counts against the limits of
// all pools that it is offered to, so that no decision starts too many jobs. Once started it counts only in its own
// pool, and the other pools are re-examined.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/pool_registry.h"
#include "control/books/team_registry.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "engine/scheduler/scheduler.h"
#include "model/job.h"

namespace divvy {

class PoolRules {
 public:
  struct PoolLoad {
    std::vector<NodeIndex> nodes;
    std::int64_t running = 0;  // Jobs.
    std::int64_t queued = 0;
    double gpus = 0;  // GPUs that its jobs hold.
  };

  /// Applies the rules of pools to jobs. `default_time_limit`: for jobs of pools that have no default of their own; 0:
  /// none.
  PoolRules(Scheduler& scheduler, const JobTable& jobs, const NodeTable& nodes, const TeamRegistry& teams,
            Duration default_time_limit)
      : scheduler_(scheduler), jobs_(jobs), nodes_(nodes), teams_(teams), default_time_limit_(default_time_limit) {}

  Status UsePools(std::vector<PoolRow> rows);  ///< See Controller.
  const PoolRegistry& registry() const { return pools_; }
  bool HasPool(const std::string& name) const;

  // --- Submission ----------------------------------------------------------------------------------------------

  /// Fills in the default pool if the job names none, and the pool's default settings that the job does not set itself.
  Status FillPool(JobSpec& spec) const;
  /// Reduces the pools of a job's components to those that the caller may use. Fails if none of them accepts the job.
  Status FillComponentPools(JobSpec& spec, const Caller& caller) const;
  /// Fails if no pool has one of these names.
  Status CheckPoolNames(const std::vector<std::string>& names) const;
  /// Returns the pools of the list that the job's user may use; `list` may be empty. Fails if none of them accepts the
  /// job.
  Result<std::string> CheckPools(const std::string& list, const PoolRegistry::Wish& wish) const;
  PoolRegistry::Wish WishOf(const JobRecord& record) const;

  // --- Waiting and running jobs --------------------------------------------------------------------------------

  /// Returns the pools to which the scheduler restricts a job that names `pool`; empty if no pools exist, so that the
  /// name is only a label.
  std::string PlacePool(const std::string& pool) const;
  /// Returns those of the job's pools in which it may start now. If all pools that accept it have reached their limits,
  /// returns all that accept it.
  std::vector<std::string> OpenPools(const JobRecord& record) const;
  /// Returns true if the job names several pools and one of them has limits.
  bool NamesLimitedPools(const JobRecord& record) const;
  /// Returns why the rules of its pools keep the job from starting even if all GPUs were free; empty if they do not.
  /// The text says whom the job waits for, as the texts of unmet dependencies do: "an administrator: pool a starts no
  /// jobs: ...".
  std::string PoolBar(const JobRecord& record) const;
  std::vector<std::string> ClosedPools(const JobRecord& record) const;  ///< See Controller.
  /// Returns the groups in which the job counts for the limits of pools: that of the pool in which it runs or, while it
  /// waits, those of the pools in which it may start. Pools without limits have no group.
  std::vector<GroupName> GroupsOf(const JobRecord& record) const;
  std::map<std::string, PoolLoad> PoolLoads() const;  ///< See Controller.

 private:
  Status TakeWholeMachines(const PoolRow& pool, JobSpec& spec) const;
  static void ShareGpus(const PoolRow& pool, JobSpec& spec);
  /// Returns why the pool does not accept the job, even if there were room; empty if it accepts the job.
  std::string WhyClosed(const PoolRow& pool, const JobRecord& record) const;

  Scheduler& scheduler_;
  const JobTable& jobs_;
  const NodeTable& nodes_;
  const TeamRegistry& teams_;
  Duration default_time_limit_;
  PoolRegistry pools_;
};

}  // namespace divvy
