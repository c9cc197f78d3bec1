// Keeps the scheduler's jobs in step with the records: what a waiting job asks for and waits for, by the rules of
// teams, pools, dependencies and predictions, and what a running one holds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/state/deadline_watch.h"
#include "control/state/dependency_table.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "control/state/pool_rules.h"
#include "control/state/run_predictions.h"
#include "control/state/team_rules.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class SchedulerFeed {
 public:
  /// Everything that decides what a job waits for.
  struct Rules {
    const NodeTable& nodes;
    const DependencyTable& dependencies;
    const PoolRules& pools;
    TeamRules& teams;
    RunPredictions& predictions;
    DeadlineWatch& deadlines;
  };

  /// Passes jobs and their changes on to the scheduler. `seed`: for the random numbers of random placement.
  SchedulerFeed(Scheduler& scheduler, const JobTable& jobs, EffectRecorder& effects, const Rules& rules, Policy policy,
                std::uint64_t seed);

  const Policy& policy() const { return policy_; }
  /// Returns whether and how the job may be preempted. Jobs with a terminal, and jobs that may run only once, cannot be
  /// preempted by requeuing them.
  Preemptible PreemptibleOf(const JobRecord& record) const;
  /// Fails if the job exceeds what its team may ever run, so that it would wait indefinitely.
  Status CheckTeamGpus(const JobRecord& record) const;

  /// Adds a waiting job, or an array with waiting elements, to the scheduler's queue, or updates it there.
  void Put(const JobRecord& record);
  /// Removes the job or array from the scheduler's queue, if it is there.
  void Remove(JobId waiting);
  /// Adds a job that runs already to the scheduler.
  void Adopt(const JobRecord& record);
  /// Call this when a job has started. If it names several pools, it then counts only for the limits of the pool in
  /// which it runs.
  void NoteStart(const JobRecord& record);
  /// Updates the waiting jobs that name several pools: each can start in those of its pools that have not reached their
  /// limits. Returns true if that has changed for any job.
  bool FollowPools();
  /// Updates all waiting jobs in the scheduler's queue. Cost: O(jobs).
  void PutAllAgain();
  /// Updates all jobs after a change of teams, because their groups may have changed. Only rare administrator actions
  /// call this.
  void FollowTeams(Time now);
  /// A node on which only jobs that can be parked start (TimeSharer), or with `is_for_all` no job.
  struct KeptNode {
    std::string why;  // Jobs that cannot start there wait for this: "job 7 of ada, which is parked, to return ...".
    bool is_for_all = false;
    friend bool operator==(const KeptNode&, const KeptNode&) = default;
  };
  /// Replaces the earlier ones. Cost of a change: O(jobs).
  void SetKeptNodes(std::map<std::string, KeptNode> nodes);
  /// Records that a running job is parked and set aside: it then holds no CPUs, and does not count against limits of
  /// its groups. Or that this ends, or the run does.
  void SetAside(JobId job, bool is_set_aside);
  /// Whether the node of a job that is set aside has CPUs for it again, and whether its groups are below their limits.
  bool HasCpusAgain(const JobRecord& record) const;
  bool AreGroupsBelowLimits(const JobRecord& record) const;
  /// Updates what waiting jobs wait for when budgets are exhausted or a new budget period begins.
  void WatchBudgets(Time now);

  /// Limits how many jobs of a group run at once; 0: no limit. The limit is stored.
  void SetGroupLimit(const std::string& group, int limit);
  void LoadGroupLimit(const std::string& group, int limit);  ///< From the store.
  std::optional<int> group_limit(const std::string& group) const;
  void RestoreGroupLimit(const std::string& group, std::optional<int> limit);  ///< Ends a trial; not durable.
  /// Sets how many of the array's elements run at once.
  void SetArrayLimit(const JobRecord& array);
  /// Call this when the limit of running elements of an array has changed. Elements that started when there was no
  /// limit then count, too.
  void CountElements(const JobRecord& array);

 private:
  RunningJob RunningJobOf(const JobRecord& record) const;
  std::vector<GroupName> GroupsOf(const JobRecord& record) const;
  void Readopt(const JobRecord& record);
  /// Updates the groups of a running job in the scheduler if they have changed.
  void Regroup(const JobRecord& record);
  void KeepFrom(const JobRecord& record, WaitingEntry& entry) const;
  void CountInItsPool(const JobRecord& record);

  Scheduler& scheduler_;
  const JobTable& jobs_;
  EffectRecorder& effects_;
  const NodeTable& nodes_;
  const DependencyTable& dependencies_;
  const PoolRules& pools_;
  TeamRules& teams_;
  RunPredictions& predictions_;
  DeadlineWatch& deadlines_;
  Policy policy_;
  std::uint64_t seed_;
  std::map<std::string, int> group_limits_;
  std::map<std::string, KeptNode> kept_nodes_;
  std::set<JobId> set_aside_;
  std::set<JobId> multi_pool_jobs_;  // Jobs that wait, or waited recently, and name several pools, one with limits.
};

}  // namespace divvy
