// The facts as the controller says them: GPUs with why they are withheld, entries that wait, jobs that run, and sums of
// what these claim. It decides nothing and keeps no order; what it costs is a look-up per fact.
//
// Invariants (CheckInvariants re-derives them): a GPU has at most one owner, and every owner runs; sums and group
// counts are those of the running jobs; waiting_count is the members of all entries.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "engine/gpu_sets.h"
#include "engine/server/facts.h"

namespace divvy {

/// The GPUs that `request` accepts by type and memory.
GpuSet MatchingGpus(const NodeCapacity& capacity, const Request& request);
/// Ascending, each once.
std::vector<GroupName> Normalised(std::vector<GroupName> groups);

class Book {
 public:
  void SetCapacity(NodeCapacity capacity);
  void SetAvailability(GpuIndex gpu, GpuAvailability availability);
  void SetGroupLimits(const GroupName& group, GroupLimits limits);

  void Put(WaitingEntry entry);
  void Remove(JobId waiting);
  /// One member of `entry` leaves it.
  void Leave(JobId entry);
  void Adopt(RunningJob job);
  void Finish(JobId running);
  /// It has `gpus` from now on, of which `asked_back` are to go.
  void Resize(JobId running, GpuSet gpus, GpuSet asked_back);
  RunningJob* find_running(JobId id);

  const NodeCapacity& capacity() const { return capacity_; }
  const GpuTopology& topology() const { return topology_; }
  const GpuAvailability& availability(GpuIndex gpu) const { return availability_[gpu]; }
  GpuSet usable() const { return usable_; }
  GpuSet owned() const { return owned_; }
  std::optional<JobId> owner(GpuIndex gpu) const;
  const WaitingEntry* waiting(JobId id) const;
  const RunningJob* running(JobId id) const;
  const std::unordered_map<JobId, WaitingEntry>& waiting_entries() const { return waiting_; }
  const std::map<JobId, RunningJob>& running_jobs() const { return running_; }
  std::uint64_t waiting_count() const { return waiting_count_; }
  GroupLimits group_limits(const GroupName& group) const;
  int group_running(const GroupName& group) const;
  int group_gpus(const GroupName& group) const;  // That its jobs hold.
  int cpus_claimed() const { return cpus_claimed_; }
  Bytes memory_claimed() const { return memory_claimed_; }
  int cpu_jobs_running() const { return cpu_jobs_running_; }

  /// Empty when all is well; else the first broken invariant. Expensive: for tests and the simulator.
  std::string CheckInvariants() const;

 private:
  struct Group {
    GroupLimits limits;
    int running = 0;
    int gpus = 0;

    bool is_used() const { return limits.any() || running > 0; }
  };

  NodeCapacity capacity_;
  GpuTopology topology_{{}};
  std::vector<GpuAvailability> availability_;
  std::array<JobId, GpuSet::kCapacity> owners_;
  GpuSet usable_;
  GpuSet owned_;
  std::map<JobId, RunningJob> running_;
  std::unordered_map<JobId, WaitingEntry> waiting_;  // For look-up: its order reaches no decision.
  std::map<GroupName, Group> groups_;                // Those with a cap or with a job that runs.
  int cpus_claimed_ = 0;
  Bytes memory_claimed_;
  int cpu_jobs_running_ = 0;
  std::uint64_t waiting_count_ = 0;
};

}  // namespace divvy
