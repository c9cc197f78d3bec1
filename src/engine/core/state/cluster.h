// The engine's model of the cluster: nodes, waiting jobs, running jobs, and reservations. Callers add one fact at a
// time; Decide turns the changes since the last call into a plan and applies it.
// A state machine without a clock: the same facts and times give the same plans. The live daemon and the simulator both
// use this class.
//
// Cost. Jobs with equal requests form a class and share one queue. After a decision no waiting job can start, so an
// event needs to examine only the classes that fit on the nodes it freed, or the class that it added to. It never
// examines the rest of the cluster or other jobs of a class. docs/engine.md has figures.
//
// Invariants (CheckInvariants re-derives them): a node's free resources are its capacity minus its placements; no GPU
// is overcommitted; every running job has its placements and every class its queue; team and cap totals match the jobs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/state/resource_request.h"
#include "engine/core/state/rules.h"
#include "engine/core/state/teams.h"
#include "engine/gpu_sets.h"
#include "engine/placement/scorer.h"

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

class NodeClassIndex;
class NodeClassChange;

class Cluster {
 public:
  explicit Cluster(Rules rules, Duration usage_half_life = std::chrono::hours(24 * 7));
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;
  /// Returns a copy, for what-if queries.
  Cluster Copy() const;

  // --- Facts --------------------------------------------------------------------------------------------------------

  /// Adds a node, before the first decision or between two. Among equally good nodes the one added first is preferred.
  NodeIndex AddNode(NodeFacts facts);
  /// `usable`: GPUs that take new work; `accepts`: whether the node takes new work at all. Running jobs stay.
  void SetUsable(NodeIndex node, GpuSet usable, bool accepts);
  /// Sets how nodes are rated: "best", "pack" ... The caller makes the scorer, because it depends on the usual demand.
  void SetScorer(std::shared_ptr<const placement::Scorer> scorer);
  void SetRules(Rules rules);
  /// Applies a reclassification of nodes: nodes and requests (TaskGroup::filters) get the classes of `class_index`. If
  /// classes were only split or merged, no decision changes. `scorer` must be rebuilt with the classes, because it
  /// refers to them by number; null: all nodes with room are equally good. Requires: `class_index` has the same nodes.
  void SetNodeClasses(const NodeClassIndex& class_index, const NodeClassChange& change,
                      std::shared_ptr<const placement::Scorer> scorer);
  /// Adds a queue for jobs that name it in ResourceRequest::pool.
  PoolIndex AddPool(PoolRules rules);
  void SetPool(PoolIndex pool, PoolRules rules);
  Teams& teams();
  /// Recounts all usage. Call after Teams::Reset.
  void RecountTeams(Time now);
  /// Adds a limit on running jobs and on the ten-thousandths of GPUs that they hold together; 0: no limit.
  CapIndex AddCap(std::string name, int limit, std::int64_t parts_limit = 0);
  void SetCap(CapIndex cap, int limit, std::int64_t parts_limit);

  /// Interns `request`.
  RequestIndex Know(const ResourceRequest& request);

  /// Adds a waiting job, or replaces the one with the same id.
  void Put(Job job, Time now);
  /// Removes a waiting job from the queue. Requires: it waits.
  void Remove(JobId id, Time now);
  /// Adds a running job that was not waiting. Requires: its placements are free.
  void Adopt(const Job& job, std::vector<TaskPlacement> placements, Time started, Time now);
  /// Records that a running job has ended (Finish), or has released some of its placements (GiveBack).
  void Finish(JobId id, Time now);
  void GiveBack(JobId id, const std::vector<TaskPlacement>& placements, Time now);
  void SetEnd(JobId running, Time end);
  /// Records that the job was told to end, so its placements will soon be free. Requires: it runs.
  void SetLeaving(JobId running);
  /// Reserves nodes for a team or user: `advance.placements` if given, whatever runs there; otherwise it searches for
  /// room. Returns nothing if there is no room.
  std::optional<AdvanceReservation> Reserve(AdvanceReservation advance, Time now);
  void CancelReservation(std::uint64_t id);

  // --- Decisions ----------------------------------------------------------------------------------------------------

  /// Chooses the id of the next member of an entry when it starts. By default a job keeps its id, and array members get
  /// the ids after it.
  using NameMember = std::function<JobId(JobId entry)>;

  /// Decides everything that follows from the facts so far. The plan is already applied to the cluster when this
  /// returns: its starts are running, and the jobs of its preemptions are marked as leaving.
  Plan Decide(Time now, const NameMember& name = {});
  /// Starts the jobs that Decide would start, but examines every class, not only those that a change may have helped.
  /// Reservations stay as they are. Directly after Decide it must start nothing; tests check Decide this way.
  Plan DecideAnew(Time now, const NameMember& name = {});

  // --- Questions ----------------------------------------------------------------------------------------------------

  std::size_t node_count() const;
  const NodeFacts& node(NodeIndex node) const;
  const NodeState& state_of(NodeIndex node) const;
  const ResourceRequest& request(RequestIndex index) const;
  const Run* running(JobId id) const;
  bool is_waiting(JobId id) const;
  std::uint64_t waiting_count() const;
  std::size_t running_count() const;
  std::vector<BackfillReservation> reservations() const;
  /// Migrating jobs that have not left their old place yet; `to` is reserved for them.
  std::vector<Move> moving() const;
  const Rules& rules() const;
  const Teams& teams() const;

  /// Returns "", or a description of the first broken invariant. Expensive.
  std::string CheckInvariants() const;

  struct State;
  State& state() { return *state_; }
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace divvy::core
