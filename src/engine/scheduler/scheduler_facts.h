// Stores the facts that the controller reports: GPUs and why they are withheld, waiting entries, running jobs, and sums
// of what these hold. It makes no decisions and keeps no order. Each call costs one look-up.
//
// Invariants (CheckInvariants re-derives them):
//   - a GPU has one owner, or sharers whose fractions do not exceed one GPU; owners and sharers are running jobs
//   - sums and group counts are those of the running jobs
//   - waiting_count is the number of members of all entries
//   - node kOwnNode always exists
#pragma once

#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/gpu_sets.h"
#include "engine/scheduler/facts.h"

namespace divvy {

/// Returns the GPUs of a node that `request` accepts by type and memory.
GpuSet MatchingGpus(const NodeCapacity& capacity, const Request& request);
/// Sorts the names in ascending order and removes duplicates.
std::vector<GroupName> Normalised(std::vector<GroupName> groups);

/// One node as callers described it, and the jobs that hold its resources.
struct NodeUsage {
  NodeAttributes attributes;
  NodeCapacity capacity;
  GpuTopology topology{{}};
  std::vector<GpuAvailability> availability;
  bool takes_work = true;
  std::string idle_reason;                      // Why the node takes no new work.
  GpuSet usable;                                // GPUs that take new work, if the node does.
  GpuSet owned;                                 // GPUs that a job holds, wholly or in part.
  std::array<JobId, GpuSet::kCapacity> owners;  // By GPU: the job that holds it whole.
  std::map<GpuIndex, std::map<JobId, GpuShare>> sharers;
  int cpus_claimed = 0;
  Bytes memory_claimed;

  GpuSet present() const { return GpuSet::FirstN(static_cast<int>(capacity.gpus.size())); }
  GpuSet taking() const { return takes_work ? usable : GpuSet(); }
  GpuSet free() const { return taking() - owned; }
  /// Returns the fraction of this GPU that no job holds.
  GpuShare room(GpuIndex gpu) const;
};

class SchedulerFacts {
 public:
  SchedulerFacts() : nodes_(1) {}

  /// Sets the capacity of an existing node, or adds the node of the next number. Requires: `capacity` includes all GPUs
  /// that jobs hold.
  void SetCapacity(NodeIndex node, NodeCapacity capacity);
  void SetAttributes(NodeIndex node, NodeAttributes attributes) { nodes_[node].attributes = std::move(attributes); }
  void SetTakesWork(NodeIndex node, bool takes_work, std::string idle_reason);
  void SetAvailability(NodeIndex node, GpuIndex gpu, GpuAvailability availability);
  void SetGroupLimits(const GroupName& group, GroupLimits limits);

  void Put(WaitingEntry entry);
  void Remove(JobId waiting);
  /// Removes one waiting job from `entry` (a job or an array); with its last job, the entry itself is removed.
  void Leave(JobId entry);
  void Adopt(RunningJob job);
  void Finish(JobId running);
  /// Records that the job is being parked: it was asked to release all of its GPUs, and holds `more_memory` of host
  /// memory in addition from now on.
  void Park(JobId running, Bytes more_memory);
  /// Records that the job holds `gpus` from now on, and was asked to release `asked_back`, a subset of them.
  void Resize(JobId running, GpuSet gpus, GpuSet asked_back);
  RunningJob* find_running(JobId id);

  const std::vector<NodeUsage>& nodes() const { return nodes_; }
  const NodeUsage& node(NodeIndex node) const { return nodes_[node]; }
  /// Returns the job that holds the whole GPU, or the jobs that hold fractions of it.
  std::vector<JobId> holders(NodeIndex node, GpuIndex gpu) const;
  void SetParkCandidates(std::vector<ParkCandidate> candidates) { park_candidates_ = std::move(candidates); }
  const std::vector<ParkCandidate>& park_candidates() const { return park_candidates_; }
  const WaitingEntry* waiting(JobId id) const;
  const RunningJob* running(JobId id) const;
  const std::unordered_map<JobId, WaitingEntry>& waiting_entries() const { return waiting_; }
  const std::map<JobId, RunningJob>& running_jobs() const { return running_; }
  std::uint64_t waiting_count() const { return waiting_count_; }
  /// Returns the number of the user's waiting jobs. An array counts once for each waiting element.
  std::uint64_t waiting_of(const std::string& user) const;
  GroupLimits group_limits(const GroupName& group) const;
  int group_running(const GroupName& group) const;
  int group_gpus(const GroupName& group) const;  // GPUs that its jobs hold: the sum of all fractions, rounded up.
  int cpu_jobs_running() const { return cpu_jobs_running_; }

  /// Returns the first broken invariant, or "" if all hold. Expensive: for tests and the simulator.
  std::string CheckInvariants() const;

 private:
  struct Group {
    GroupLimits limits;
    int running = 0;
    std::int64_t gpu_parts = 0;

    bool is_used() const { return limits.any() || running > 0; }
  };

  void CountWaiting(const WaitingEntry& entry, std::int64_t members);
  void Take(JobId job, const NodeResources& place);
  void Free(JobId job, const NodeResources& place);
  std::string CheckNode(NodeIndex node) const;

  std::vector<NodeUsage> nodes_;
  std::map<JobId, RunningJob> running_;
  std::unordered_map<JobId, WaitingEntry> waiting_;  // For look-ups only: its order affects no decision.
  std::map<GroupName, Group> groups_;                // Groups with a limit or with a running job.
  std::vector<ParkCandidate> park_candidates_;
  int cpu_jobs_running_ = 0;
  std::uint64_t waiting_count_ = 0;
  std::unordered_map<std::string, std::uint64_t> waiting_of_user_;  // Users with waiting jobs only.
};

}  // namespace divvy
