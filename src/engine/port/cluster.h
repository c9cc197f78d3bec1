// One server, decided by the engine for many nodes (engine/core): the interface of engine/cluster.h and
// engine/schedule.h, with the same arguments and results, over a core::Cluster of one node.
//
// Two things are kept in step. The book (divvy::Cluster) has the facts as callers say them: entries with their texts,
// running jobs, the order of the queue. The core decides. Every fact goes into both; every decision of the core is
// entered in the book when Decide returns.
//
// Invariants (CheckInvariants): those of both; and both know the same jobs, waiting and running, on the same GPUs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cluster.h"
#include "engine/core/cluster.h"
#include "engine/port/translate.h"
#include "engine/schedule.h"

namespace divvy::port {

/// A plan that has been applied.
struct Decided {
  Plan plan;
  std::vector<JobId> jobs;  // jobs[i] runs by plan.starts[i].
};

class Cluster {
 public:
  using Queue = divvy::Cluster::Queue;
  /// How the next member of an entry is called once it runs.
  using NameMember = std::function<JobId(JobId entry)>;

  Cluster();

  /// Before anything else; may be called again with the same GPU count or more. At most placement::kMaxGpus GPUs.
  void SetCapacity(NodeCapacity capacity);
  void SetAvailability(GpuIndex gpu, GpuAvailability availability);
  void SetGroupLimit(const GroupName& group, int limit);  // 0: no cap.

  /// Adds an entry, or replaces the one of the same id.
  void Put(WaitingEntry entry);
  void Remove(JobId waiting);
  /// One member of `entry` leaves the queue and runs as `job`. Requires: job.gpus are free. Decide does this itself.
  void Start(JobId entry, RunningJob job);
  void Adopt(RunningJob job);
  void SetKnownEnd(JobId running, Time end);
  void Finish(JobId running);

  /// Who starts now; they run, and have left the queue, when this returns. Cost: that of core::Cluster::Decide.
  Decided Decide(const Policy& policy, Time now, const NameMember& name);
  /// What Decide would say, without doing it: decides on a copy. For questions and tests.
  Plan WouldDecide(const Policy& policy, Time now) const;

  const NodeCapacity& capacity() const { return book_.capacity(); }
  const GpuTopology& topology() const { return book_.topology(); }
  const GpuAvailability& availability(GpuIndex gpu) const { return book_.availability(gpu); }
  GpuSet usable() const { return book_.usable(); }
  GpuSet free() const { return book_.free(); }
  std::optional<JobId> owner(GpuIndex gpu) const { return book_.owner(gpu); }
  const WaitingEntry* waiting(JobId id) const { return book_.waiting(id); }
  const RunningJob* running(JobId id) const { return book_.running(id); }
  const std::map<JobId, RunningJob>& running_jobs() const { return book_.running_jobs(); }
  std::uint64_t waiting_count() const { return book_.waiting_count(); }
  const Queue& queue() const { return book_.queue(); }
  int group_limit(const GroupName& group) const { return book_.group_limit(group); }
  int group_running(const GroupName& group) const { return book_.group_running(group); }
  int cpus_claimed() const { return book_.cpus_claimed(); }
  Bytes memory_claimed() const { return book_.memory_claimed(); }
  int cpu_jobs_running() const { return book_.cpu_jobs_running(); }

  /// Empty when all is well; else the first broken invariant. Expensive.
  std::string CheckInvariants() const;

  const divvy::Cluster& book() const { return book_; }
  const core::Cluster& core() const { return core_; }

 private:
  void Rebuild();
  void ShowUsable();
  core::Job JobOf(const WaitingEntry& entry);
  void PutInCore(const WaitingEntry& entry);
  void RemoveFromCore(const WaitingEntry& entry);
  void AdoptInCore(const RunningJob& job);
  std::vector<core::CapIndex> UseCaps(std::vector<GroupName> groups, bool is_cpu_job);
  void LeaveCaps(std::vector<GroupName> groups);
  void ApplyPolicy(core::Cluster& core, const Policy& policy) const;

  divvy::Cluster book_;
  core::Cluster core_;
  Kinds kinds_;
  Caps caps_;
  core::CapIndex cpu_jobs_cap_ = 0;
  bool is_overcommitted_ = false;  // Running jobs claim more CPUs or memory than there is; core knows what fits.
  Time now_ = kNoTime;             // Of the last decision.
};

// As engine/schedule.h has them.
Plan Schedule(const Cluster& cluster, const Policy& policy, Time now);
Explanation Explain(const Cluster& cluster, const Policy& policy, JobId entry, Time now);
Status CheckFeasible(const Cluster& cluster, const Request& request);
std::vector<JobId> QueueOrder(const Cluster& cluster, const Policy& policy, Time now, std::size_t limit);

}  // namespace divvy::port
