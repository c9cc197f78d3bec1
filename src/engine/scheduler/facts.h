// Plain values with which the controller describes nodes, GPUs and jobs to the scheduler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "base/units.h"
#include "model/gpus/gpu.h"
#include "model/job.h"
#include "model/node_allocation.h"

namespace divvy {

/// Why a GPU takes no new work at the moment. It does take work if all texts are empty and is_restricted is false.
struct GpuAvailability {
  bool is_restricted = false;
  std::string fault;      // Fenced: "XID 79 (fallen off the bus)".
  std::string unmanaged;  // Used by a process that divvy did not start: "pid 4711 of ada, 1.2 GiB, for 3 h".
  std::string stuck;      // Something on it cannot be removed: "the MIG instance of job 5 cannot be destroyed: ...".
  bool is_kept_by_found_runs = false;  // `unmanaged` names only found runs that are not in the store.

  bool is_usable() const { return !is_restricted && fault.empty() && unmanaged.empty() && stuck.empty(); }
  friend bool operator==(const GpuAvailability&, const GpuAvailability&) = default;
};

struct NodeCapacity {
  std::vector<GpuFacts> gpus;  // By index: gpus[i].index == i.
  int cpus = 0;
  Bytes memory;

  friend bool operator==(const NodeCapacity&, const NodeCapacity&) = default;
};

/// Number of a node, in the order in which nodes were added. A number is never reused for another node.
using NodeIndex = std::uint32_t;
/// The controller's own node.
inline constexpr NodeIndex kOwnNode = 0;

/// Attributes of a node that requests can refer to, besides its GPUs, CPUs and memory.
struct NodeAttributes {
  std::string name;
  std::vector<std::string> features;
  std::vector<std::string> pools;
  std::string rack;   // Empty: not known.
  std::string block;  // A group of racks that are close to each other. Empty: not known.

  friend bool operator==(const NodeAttributes&, const NodeAttributes&) = default;
};

/// The resources that a job holds on one node.
struct NodeResources {
  NodeIndex node = kOwnNode;
  GpuSet gpus;
  int tasks = 1;
  int cpus = 0;
  Bytes memory;
  std::vector<ComponentAllocation> parts =
      {};                            // Heterogeneous jobs only: by component; the fields above are their totals.
  GpuShare share{GpuShare::kWhole};  // The fraction that the job holds of each of `gpus`.
  GpuSlice slice = {};               // Optional. The MIG instance; `gpus` is a single GPU then.

  friend bool operator==(const NodeResources&, const NodeResources&) = default;
};

/// A set of jobs under a common limit on running jobs or on held GPUs: a named group, an array with "%8", a user.
using GroupName = std::string;

/// Limits on what the jobs of a group may have together; 0: no limit.
struct GroupLimits {
  int jobs = 0;
  int gpus = 0;  // Counts what jobs hold now: growth counts, GPUs given back do not.

  bool any() const { return jobs > 0 || gpus > 0; }
  friend bool operator==(const GroupLimits&, const GroupLimits&) = default;
};

/// How fast a job runs on the GPUs of one model.
struct ModelSpeed {
  std::string model;  // Name as reported by NVML.
  int speed = 1000;   // In thousandths of the speed on the fastest model.

  friend bool operator==(const ModelSpeed&, const ModelSpeed&) = default;
};

/// A waiting job, or the elements of an array that have not started: `count` equal members that start one by one.
struct WaitingEntry {
  JobId id;  // The job, or the array's id.
  std::uint32_t count = 1;
  Request request;
  int priority = 0;
  /// Since when it counts as waiting (submission, release or requeue). A later begin time counts instead: a job neither
  /// waits nor escalates before it may start.
  Time queued_at = kNoTime;
  Duration time_limit{0};         // 0: no limit is known.
  std::string pool;               // Only nodes of this pool; "a,b": of either, preferably the first. Empty: all nodes.
  std::vector<GroupName> groups;  // Every group whose limits apply to it.
  /// Already resolved: the job's own strategy, or else Policy::placement.
  PlacementStrategy placement = PlacementStrategy::kSequential;
  /// The random number for kRandom, drawn by the caller; the members of an array vary it by themselves.
  std::uint64_t placement_draw = 0;
  std::string user;
  std::string team;       // Name; a team that was not passed to SetTeams counts as no team.
  Duration predicted{0};  // How long similar jobs ran; 0: not known. Affects estimates and `shortest` only.
  Preemptible preemptible = Preemptible::kNever;  // Already resolved: the job's own, or else Policy::preemptible.
  /// Measured speeds of similar jobs; empty: not known. Speeds given in the request take precedence.
  std::vector<ModelSpeed> speeds;
  // Conditions that keep the entry out of the queue. The controller keeps them up to date.
  bool is_held = false;
  Time begin = kNoTime;
  std::vector<std::string> unmet_dependencies;  // "job 12 to succeed"; empty: none.
  std::vector<JobId> waits_for;  // The jobs that must end first. Set only if every unmet dependency is on a job.
  bool is_newcomer = false;      // Running jobs may be parked for it (ParkCandidate).
};

struct RunningJob {
  JobId id;
  NodeIndex node = kOwnNode;
  GpuSet gpus;
  GpuShare share{GpuShare::kWhole};  // The fraction that it holds of each of `gpus`.
  GpuSlice slice;                    // Optional. The MIG instance; `gpus` is a single GPU then.
  int cpus = 0;
  Bytes memory;
  /// For jobs on several nodes: all of them; the first repeats the fields above. Empty: the job is on one node.
  std::vector<NodeResources> gang;
  std::vector<GroupName> groups;
  Time started = kNoTime;
  Time known_end = kNever;  // End by the time limit; kNever without one.
  std::string user;
  std::string name;
  std::string team;
  int priority = 0;
  Duration predicted{0};
  Time predicted_end = kNever;  // Set if more is known about this job than about similar ones.
  Preemptible preemptible = Preemptible::kNever;
  bool is_leaving = false;  // It was told to end; its resources will be free soon.
  Time queued_at = kNoTime;
  // Elastic jobs that accept resizing while they run: such a job regularly queries which GPUs it may use.
  bool is_resizable = false;
  Request request;    // The original request. The job always has between request.gpus and request.max_gpus GPUs.
  GpuSet asked_back;  // The subset of its GPUs that it was asked to give back. It holds them until it does.
  Time asked_at = kNoTime;
  Time grown_at = kNoTime;         // When it last received GPUs.
  std::vector<ModelSpeed> speeds;  // See WaitingEntry::speeds.
  std::string pool;                // The one of WaitingEntry::pool in which it runs.
  /// It is being parked, or is parked: then it has no GPUs. `memory` includes the content of its GPUs.
  bool is_displaced = false;

  std::vector<NodeResources> places() const {
    return gang.empty() ? std::vector<NodeResources>{{node, gpus, request.tasks, cpus, memory, {}, share, slice}}
                        : gang;
  }
  /// Returns how many GPUs the job holds on all nodes; a GPU of which it holds a fraction counts as one.
  int gpu_count() const {
    int count = 0;
    for (const NodeResources& place : gang) count += place.gpus.size();
    return gang.empty() ? gpus.size() : count;
  }
  /// Returns how much of GPUs the job holds on all nodes, in ten-thousandths of a GPU.
  std::int64_t gpu_parts() const { return std::int64_t{gpu_count()} * share.ten_thousandths(); }
  /// Returns true if the job counts against the limit on jobs without GPUs.
  bool is_cpu_job() const { return gpu_count() == 0 && !is_displaced; }
  GpuSet gpus_on(NodeIndex which) const {
    for (const NodeResources& place : gang) {
      if (place.node == which) return place.gpus;
    }
    return gang.empty() && node == which ? gpus : GpuSet();
  }
};

/// A running job on one node with whole GPUs that may be parked in host memory now, so that a newcomer starts.
struct ParkCandidate {
  JobId job;
  std::int64_t weight = 0;  // Jobs with less are parked first. Between 0 and 10^9.
  Bytes memory;             // The content of its GPUs: host memory that it needs while it is parked. Whole MiB.
};

}  // namespace divvy
