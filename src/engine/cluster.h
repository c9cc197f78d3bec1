// What the engine knows: the node's GPUs, the jobs that wait and the jobs that run. Only `control` changes it, one fact
// at a time; Schedule and Explain read it. It holds no clock: `now` is always an argument.
//
// Invariants (CheckInvariants re-derives all of them): a GPU has at most one owner; every owner is a running job; sums
// of CPUs, memory and group counts equal what the running jobs claim; every waiting entry is in exactly one class.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/units.h"
#include "model/gpu.h"
#include "model/job.h"

namespace divvy {

/// Why a GPU takes no new work at the moment. Empty texts and false mean that it does.
struct GpuAvailability {
  bool is_restricted = false;
  std::string fault;      // Fenced: "XID 79 (fallen off the bus)".
  std::string unmanaged;  // Used by a process that divvy did not start: "pid 4711 of ada, 1.2 GiB, for 3 h".

  bool is_usable() const { return !is_restricted && fault.empty() && unmanaged.empty(); }
  friend bool operator==(const GpuAvailability&, const GpuAvailability&) = default;
};

class GpuTopology;

struct NodeCapacity {
  std::vector<GpuFacts> gpus;  // By index: gpus[i].index == i.
  int cpus = 0;
  Bytes memory;
};

/// A cap on how many jobs run together: a named group, or an array's own "%8".
using GroupName = std::string;

/// A job that waits, or the elements of an array that have not started: `count` equal members that leave one by one.
struct WaitingEntry {
  JobId id;  // The job, or the array's id.
  std::uint32_t count = 1;
  Request request;
  int priority = 0;
  /// Since when it counts as waiting (submission, release or requeue). A begin time after it counts instead: nobody
  /// waits, or escalates, before they may start.
  Time queued_at = kNoTime;
  Duration time_limit{0};         // 0: none known.
  std::vector<GroupName> groups;  // Every cap that it falls under.
  /// Resolved already: the job's own, else Policy::placement.
  PlacementStrategy placement = PlacementStrategy::kSequential;
  /// The random number of kRandom, drawn outside; the members of an array vary it by themselves.
  std::uint64_t placement_draw = 0;
  std::string user;
  // What keeps it from being looked at; control keeps these true.
  bool is_held = false;
  Time begin = kNoTime;
  std::vector<std::string> unmet_dependencies;  // "job 12 to succeed"; empty: none.
};

struct RunningJob {
  JobId id;
  GpuSet gpus;
  int cpus = 0;
  Bytes memory;
  std::vector<GroupName> groups;
  Time started = kNoTime;
  Time known_end = kNever;  // From its time limit; kNever without one.
  std::string user;
  std::string name;
};

enum class QueuePolicy { kSmallFirst, kFifo };

/// All that an administrator can choose about deciding. Defaults: units and reasons beside each.
struct Policy {
  QueuePolicy order = QueuePolicy::kSmallFirst;
  Duration escalate_after = std::chrono::hours(1);  // Valohai's figure; 0: never escalates.
  /// Of jobs that name none; the engine reads the entry's.
  PlacementStrategy placement = PlacementStrategy::kSequential;
  /// Jobs without GPUs that may run at once; they never wait behind GPU jobs, so something else must bound them.
  int cpu_jobs_at_once = 256;
};

class Cluster {
 public:
  Cluster();
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  /// Before anything else; may be called again with the same GPU count or more.
  void SetCapacity(NodeCapacity capacity);
  void SetAvailability(GpuIndex gpu, GpuAvailability availability);
  void SetGroupLimit(const GroupName& group, int limit);  // 0: no cap.

  /// Adds an entry, or replaces the one of the same id (its fields may all have changed).
  void Put(WaitingEntry entry);
  void Remove(JobId waiting);
  /// One member of `entry` leaves the queue and runs as `job`. Requires: job.gpus are free.
  void Start(JobId entry, RunningJob job);
  /// Takes a running job in that was not waiting (adoption after a restart).
  void Adopt(RunningJob job);
  void SetKnownEnd(JobId running, Time end);
  void Finish(JobId running);

  const NodeCapacity& capacity() const;
  const GpuTopology& topology() const;  // Of capacity().gpus.
  const GpuAvailability& availability(GpuIndex gpu) const;
  GpuSet usable() const;  // Take new work, whether or not somebody holds them now.
  GpuSet free() const;    // Usable and without an owner.
  std::optional<JobId> owner(GpuIndex gpu) const;
  const WaitingEntry* waiting(JobId id) const;
  const RunningJob* running(JobId id) const;
  const std::map<JobId, RunningJob>& running_jobs() const;
  std::uint64_t waiting_count() const;  // Members, not entries.

  /// Empty when all is well; else the first broken invariant. Expensive: for tests and the simulator.
  std::string CheckInvariants() const;

  struct Queue;  // The classes; engine/queue.h.
  const Queue& queue() const;
  int group_limit(const GroupName& group) const;
  int group_running(const GroupName& group) const;
  int cpus_claimed() const;
  Bytes memory_claimed() const;
  int cpu_jobs_running() const;  // Running jobs without GPUs.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace divvy
