// What the controller tells the server about machines, GPUs and jobs: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "base/units.h"
#include "model/gpus/gpu.h"
#include "model/job.h"
#include "model/seat.h"

namespace divvy {

/// Why a GPU takes no new work at the moment. Empty texts and false mean that it does.
struct GpuAvailability {
  bool is_restricted = false;
  std::string fault;      // Fenced: "XID 79 (fallen off the bus)".
  std::string unmanaged;  // Used by a process that divvy did not start: "pid 4711 of ada, 1.2 GiB, for 3 h".
  std::string stuck;      // Has what divvy cannot take away: "the MIG instance of job 5 cannot be unmade: ...".
  bool is_kept_by_found_runs = false;  // `unmanaged` names only runs that the store does not know.

  bool is_usable() const { return !is_restricted && fault.empty() && unmanaged.empty() && stuck.empty(); }
  friend bool operator==(const GpuAvailability&, const GpuAvailability&) = default;
};

struct NodeCapacity {
  std::vector<GpuFacts> gpus;  // By index: gpus[i].index == i.
  int cpus = 0;
  Bytes memory;

  friend bool operator==(const NodeCapacity&, const NodeCapacity&) = default;
};

/// Machines by number, in the order in which they came. A number is one machine's for ever.
using NodeIndex = std::uint32_t;
/// The controller's own.
inline constexpr NodeIndex kOwnNode = 0;

/// What requests can say of a machine besides its GPUs, CPUs and memory.
struct NodeWords {
  std::string name;
  std::vector<std::string> features;
  std::vector<std::string> pools;
  std::string rack;   // Empty: not known.
  std::string block;  // Of racks that are close to each other.

  friend bool operator==(const NodeWords&, const NodeWords&) = default;
};

/// What a job has on one machine.
struct NodePlace {
  NodeIndex node = kOwnNode;
  GpuSet gpus;
  int tasks = 1;
  int cpus = 0;
  Bytes memory;
  std::vector<SeatPart> parts = {};  // Of a heterogeneous job: by component; all the above is theirs together.
  GpuShare share{GpuShare::kWhole};  // Of each of `gpus`.
  GpuSlice slice = {};               // Of `gpus`, which is one then.

  friend bool operator==(const NodePlace&, const NodePlace&) = default;
};

/// A cap on jobs that run together, or on the GPUs that they hold: a named group, an array's own "%8", a user.
using GroupName = std::string;

/// What the jobs of a group may have together; 0: no cap.
struct GroupLimits {
  int jobs = 0;
  int gpus = 0;  // As they hold them: growth and what was given back count.

  bool any() const { return jobs > 0 || gpus > 0; }
  friend bool operator==(const GroupLimits&, const GroupLimits&) = default;
};

/// How fast a job is on the GPUs of one model.
struct ModelSpeed {
  std::string model;  // As NVML names it.
  int speed = 1000;   // In thousandths of the fastest.

  friend bool operator==(const ModelSpeed&, const ModelSpeed&) = default;
};

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
  std::string pool;               // Machines of this pool only; "a,b": of either, the first is liked best. Empty: all.
  std::vector<GroupName> groups;  // Every cap that it falls under.
  /// Resolved already: the job's own, else Policy::placement.
  PlacementStrategy placement = PlacementStrategy::kSequential;
  /// The random number of kRandom, drawn outside; the members of an array vary it by themselves.
  std::uint64_t placement_draw = 0;
  std::string user;
  std::string team;       // By name; one that SetTeams did not have counts as none.
  Duration predicted{0};  // How long its like ran; 0: nothing is known. Moves estimates and `shortest`, no promise.
  Preemptible preemptible = Preemptible::kNever;  // Resolved already: the job's own, else Policy::preemptible.
  /// As its like showed; empty: not known. What its request says by hand goes before.
  std::vector<ModelSpeed> speeds;
  // What keeps it from being looked at; control keeps these true.
  bool is_held = false;
  Time begin = kNoTime;
  std::vector<std::string> unmet_dependencies;  // "job 12 to succeed"; empty: none.
  std::vector<JobId> waits_for;  // The jobs that have to end first, where all unmet dependencies are such.
};

struct RunningJob {
  JobId id;
  NodeIndex node = kOwnNode;
  GpuSet gpus;
  GpuShare share{GpuShare::kWhole};  // Of each of `gpus`.
  GpuSlice slice;                    // Of `gpus`, which is one then.
  int cpus = 0;
  Bytes memory;
  /// Of a job on several machines: all of them; the first says the same as the four above. Empty: it is on one.
  std::vector<NodePlace> gang;
  std::vector<GroupName> groups;
  Time started = kNoTime;
  Time known_end = kNever;  // From its time limit; kNever without one.
  std::string user;
  std::string name;
  std::string team;
  int priority = 0;
  Duration predicted{0};
  Time predicted_end = kNever;  // Where more is known of it than of its like.
  Preemptible preemptible = Preemptible::kNever;
  bool is_leaving = false;  // Was told to end: what it holds is about to be free.
  Time queued_at = kNoTime;
  // Of an elastic job that takes part in being resized while it runs: it asks now and then what it may use.
  bool is_resizable = false;
  Request request;    // What it asked for; it keeps request.gpus at least and has request.gpus_most at most.
  GpuSet asked_back;  // Of its GPUs: what it was asked to give back. They stay its own until it does.
  Time asked_at = kNoTime;
  Time grown_at = kNoTime;         // When it last got more.
  std::vector<ModelSpeed> speeds;  // As of WaitingEntry.
  std::string pool;                // Of those of WaitingEntry the one that it runs in.

  std::vector<NodePlace> places() const {
    return gang.empty() ? std::vector<NodePlace>{{node, gpus, request.tasks, cpus, memory, {}, share, slice}} : gang;
  }
  /// On all machines; one that it has a part of counts as one.
  int gpu_count() const {
    int count = 0;
    for (const NodePlace& place : gang) count += place.gpus.size();
    return gang.empty() ? gpus.size() : count;
  }
  /// In parts of GPUs, on all machines.
  std::int64_t gpu_parts() const { return std::int64_t{gpu_count()} * share.ten_thousandths(); }
  GpuSet gpus_on(NodeIndex which) const {
    for (const NodePlace& place : gang) {
      if (place.node == which) return place.gpus;
    }
    return gang.empty() && node == which ? gpus : GpuSet();
  }
};

}  // namespace divvy
