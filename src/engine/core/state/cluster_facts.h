// The facts that a Cluster is told, and the plans that it returns.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/state/resource_request.h"
#include "engine/core/state/rules.h"
#include "engine/core/state/teams.h"
#include "engine/gpu_sets.h"

namespace divvy::core {

struct NodeFacts {
  std::string name;
  std::int32_t cpu_milli = 0;  // Negative: nothing fits, not even a request without CPUs.
  std::int32_t memory_mib = 0;
  int gpus = 0;
  /// The node class that requests select by: GPU model, pool and features together. Below placement::kMaxModels.
  int node_class = 0;
  /// The class of each GPU, if they differ. Then `node_class` is the node's own class, and a shape that accepts any of
  /// its GPUs accepts that class as well. Empty: all GPUs are of `node_class`.
  std::vector<std::uint8_t> gpu_classes;
  /// Memory of each GPU, MiB. Empty: GPU memory is not accounted.
  std::vector<std::int32_t> gpu_memory_mib;
  /// GPUs that can be divided into MIG instances while nothing else runs on them.
  GpuSet sliceable;
  /// The subset of `sliceable` that takes only MIG instances.
  GpuSet only_sliced;
  /// The GPU model alone: tasks of one job run on one model.
  int gpu_model = 0;
  /// The model of each GPU, if `gpu_classes` is set. Empty: all are `gpu_model`.
  std::vector<int> gpu_models;
  std::uint32_t rack = 0;
  std::uint32_t block = 0;
  std::shared_ptr<const GpuTopology> topology;  // Null: all links between GPUs are equal.
};

/// A waiting job, or the rest of an array: `count` equal members that leave the queue one by one.
struct Job {
  JobId id;
  std::uint32_t count = 1;
  RequestIndex request = 0;
  TeamIndex team = kRootTeam;
  UserIndex user = 0;
  int priority = 0;
  Time queued_at = kNoTime;
  Time begin = kNoTime;
  Duration limit{0};           // 0: none.
  Duration predicted{0};       // 0: unknown.
  std::vector<CapIndex> caps;  // Ascending, each once.
  Preemptible preemptible = Preemptible::kNever;
  bool is_parked = false;  // Held, or waits for dependencies; cannot start.
  std::uint64_t draw = 0;  // Random draw for PlacementStrategy::kRandom, made by the caller. Array members derive their
                           // own from it.
};

/// A running job and its placements.
struct Run {
  JobId id;
  ClassIndex job_class = 0;
  int priority = 0;
  Time queued_at = kNoTime;
  std::vector<TaskPlacement> placements;
  Time started = kNoTime;
  Time end = kNever;  // By its time limit.
  Time predicted_end = kNever;
  Time expected = kNever;              // The expected end as of the last decision; maintained by the cluster.
  bool is_leaving = false;             // The whole job was told to end.
  std::vector<TaskPlacement> leaving;  // For an elastic job that keeps running: placements that it was told to release.
};

struct Start {
  JobId job;    // The running member's id, chosen by the caller (NameMember).
  JobId entry;  // The waiting entry that it comes from.
  std::vector<TaskPlacement> placements;
  bool is_backfilled = false;
  JobId passed;  // The first blocked job that it was started ahead of; unset: none.
  /// The start reserved for `passed` at that moment; kNever if it drains nodes, kNoTime if it has no reservation.
  Time passed_start = kNoTime;
};

/// Placements that a running job must release: all of them, or an elastic job's surplus.
struct Preemption {
  JobId job;
  std::vector<TaskPlacement> placements;
  bool is_all = true;
  JobId preemptor;
};

/// A running job is migrated.
struct Move {
  JobId job;
  std::vector<TaskPlacement> from;
  std::vector<TaskPlacement> to;
  JobId preemptor;
};

/// An elastic job gets more placements.
struct Growth {
  JobId job;
  std::vector<TaskPlacement> placements;
};

/// An idle GPU is switched to MIG mode, or back (is_merge), before the job that needs it starts. The instances
/// themselves are created and removed with the placements that use them.
struct Carving {
  NodeIndex node = 0;
  int gpu = 0;
  bool is_merge = false;
  JobId preemptor;
};

/// A backfill reservation, or a preemptor's nomination, for a waiting job.
struct BackfillReservation {
  JobId entry;
  Time start = kNever;         // kNever: it drains `placements`, whose owners have no known end.
  bool is_sure = false;        // Based on time limits alone; false: also on predictions.
  bool is_nomination = false;  // A nomination: the resources were preempted for this job and will soon be free.
  std::vector<TaskPlacement> placements;
};

struct Plan {
  std::vector<Carving> carvings;
  std::vector<Start> starts;  // In the order decided.
  std::vector<Preemption> preemptions;
  std::vector<Move> moves;
  std::vector<Growth> growths;
  /// When the plan can change without another event; kNever: only an event can change it.
  Time next_wakeup = kNever;
};

/// GPUs reserved for a user or team during a time interval.
struct AdvanceReservation {
  std::uint64_t id = 0;
  std::vector<TaskPlacement> placements;  // Shape: whole GPUs.
  RequestIndex request = 0;
  TeamIndex team = kRootTeam;
  std::optional<UserIndex> user;  // Unset: every user of the team.
  Time from = kNoTime;
  Time until = kNever;
};

}  // namespace divvy::core
