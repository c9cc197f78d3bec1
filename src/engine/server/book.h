// The facts as the controller says them: GPUs with why they are withheld, entries that wait, jobs that run, and sums of
// what these claim. It decides nothing and keeps no order; what it costs is a look-up per fact.
//
// Invariants (CheckInvariants re-derives them): a GPU has one owner, or sharers whose parts are no more than it has,
// and each of them runs; sums and group counts are those of the running jobs; waiting_count is the members of all
// entries. There is always a machine of number kOwnNode.
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

/// One machine, as callers said it is, and who has what of it.
struct BookNode {
  NodeWords words;
  NodeCapacity capacity;
  GpuTopology topology{{}};
  std::vector<GpuAvailability> availability;
  bool takes_work = true;
  std::string idle_reason;                      // Why it takes none.
  GpuSet usable;                                // Take new work, as far as the machine does.
  GpuSet owned;                                 // Somebody has it, or a part of it.
  std::array<JobId, GpuSet::kCapacity> owners;  // Of whole ones.
  std::map<GpuIndex, std::map<JobId, GpuShare>> sharers;
  int cpus_claimed = 0;
  Bytes memory_claimed;

  GpuSet present() const { return GpuSet::FirstN(static_cast<int>(capacity.gpus.size())); }
  GpuSet taking() const { return takes_work ? usable : GpuSet(); }
  GpuSet free() const { return taking() - owned; }
  /// What of a GPU nobody has.
  GpuShare room(GpuIndex gpu) const;
};

class Book {
 public:
  Book() : nodes_(1) {}

  /// Of the next number, or one that there is. Requires: it has all GPUs that somebody holds.
  void SetCapacity(NodeIndex node, NodeCapacity capacity);
  void SetWords(NodeIndex node, NodeWords words) { nodes_[node].words = std::move(words); }
  void SetTakesWork(NodeIndex node, bool takes_work, std::string idle_reason);
  void SetAvailability(NodeIndex node, GpuIndex gpu, GpuAvailability availability);
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

  const std::vector<BookNode>& nodes() const { return nodes_; }
  const BookNode& node(NodeIndex node) const { return nodes_[node]; }
  /// Its owner, or those who share it.
  std::vector<JobId> holders(NodeIndex node, GpuIndex gpu) const;
  const WaitingEntry* waiting(JobId id) const;
  const RunningJob* running(JobId id) const;
  const std::unordered_map<JobId, WaitingEntry>& waiting_entries() const { return waiting_; }
  const std::map<JobId, RunningJob>& running_jobs() const { return running_; }
  std::uint64_t waiting_count() const { return waiting_count_; }
  /// The members of one user's entries.
  std::uint64_t waiting_of(const std::string& user) const;
  GroupLimits group_limits(const GroupName& group) const;
  int group_running(const GroupName& group) const;
  int group_gpus(const GroupName& group) const;  // That its jobs hold; parts are summed up, and rounded up.
  int cpu_jobs_running() const { return cpu_jobs_running_; }

  /// Empty when all is well; else the first broken invariant. Expensive: for tests and the simulator.
  std::string CheckInvariants() const;

 private:
  struct Group {
    GroupLimits limits;
    int running = 0;
    std::int64_t gpu_parts = 0;

    bool is_used() const { return limits.any() || running > 0; }
  };

  void CountWaiting(const WaitingEntry& entry, std::int64_t members);
  void Take(JobId job, const NodePlace& place);
  void Free(JobId job, const NodePlace& place);
  std::string CheckNode(NodeIndex node) const;

  std::vector<BookNode> nodes_;
  std::map<JobId, RunningJob> running_;
  std::unordered_map<JobId, WaitingEntry> waiting_;  // For look-up: its order reaches no decision.
  std::map<GroupName, Group> groups_;                // Those with a cap or with a job that runs.
  int cpu_jobs_running_ = 0;
  std::uint64_t waiting_count_ = 0;
  std::unordered_map<std::string, std::uint64_t> waiting_of_user_;  // Those with any.
};

}  // namespace divvy
