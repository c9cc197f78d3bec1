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

#include "engine/core/state/cluster_facts.h"
#include "engine/core/state/rules.h"
#include "engine/core/state/teams.h"
#include "engine/placement/scorer.h"

namespace divvy::core {

struct ClusterState;
class NodeClassIndex;
class NodeClassChange;

class Cluster {
 public:
  explicit Cluster(Rules rules, Duration usage_half_life = std::chrono::hours(24 * 7));
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;
  /// Returns a copy of the cluster, for what-if queries.
  Cluster Copy() const;

  // --- Facts --------------------------------------------------------------------------------------------------------

  /// Adds a node, before the first decision or between two. Among equally good nodes the one added first is preferred.
  NodeIndex AddNode(NodeFacts facts);
  /// Sets which GPUs of the node take new work (`usable`), and whether the node takes new work at all (`accepts`).
  /// Running jobs stay.
  void SetUsable(NodeIndex node, GpuSet usable, bool accepts);
  /// Sets how nodes are rated: "best", "pack" ... The caller makes the scorer, because it depends on the usual demand.
  void SetScorer(std::shared_ptr<const placement::Scorer> scorer);
  void SetRules(Rules rules);
  /// Applies a change of the node classes: nodes and requests (TaskGroup::filters) get the classes of `class_index`. If
  /// classes were only split or merged, no decision changes. `scorer` must be rebuilt with the classes, because it
  /// refers to them by number; null: all nodes with room are equally good. Requires: `class_index` has the same nodes.
  void SetNodeClasses(const NodeClassIndex& class_index, const NodeClassChange& change,
                      std::shared_ptr<const placement::Scorer> scorer);
  /// Adds a pool with a queue of its own, for jobs that name it in ResourceRequest::pool.
  PoolIndex AddPool(PoolRules rules);
  void SetPool(PoolIndex pool, PoolRules rules);
  Teams& teams();
  /// Counts the usage of all teams again. Call after Teams::Reset.
  void RecountTeams(Time now);
  /// Adds a limit for a group of jobs: on how many run at once, and on the ten-thousandths of GPUs that they hold
  /// together; 0: no limit. Returns the limit's index.
  CapIndex AddCap(std::string name, int limit, std::int64_t parts_limit = 0);
  void SetCap(CapIndex cap, int limit, std::int64_t parts_limit);

  /// Stores `request` and returns its index; equal requests have the same index.
  RequestIndex Know(const ResourceRequest& request);

  /// Adds a waiting job, or replaces the one with the same id.
  void Put(Job job, Time now);
  /// Removes a waiting job from the queue. Requires: it waits.
  void Remove(JobId id, Time now);
  /// Adds a job that runs already and was not in the queue. Requires: its placements are free.
  void Adopt(const Job& job, std::vector<TaskPlacement> placements, Time started, Time now);
  /// Records that a running job has ended (Finish), or has released some of its placements (GiveBack).
  void Finish(JobId id, Time now);
  void GiveBack(JobId id, const std::vector<TaskPlacement>& placements, Time now);
  void SetEnd(JobId running, Time end);
  /// Records that the job was told to end, so its placements will soon be free. Requires: it runs.
  void SetLeaving(JobId running);
  /// Makes an advance reservation for a team or user. It gets `advance.placements` if given, even if jobs run there;
  /// otherwise resources are searched that are free in that time. Returns nullopt if there are none.
  std::optional<AdvanceReservation> Reserve(AdvanceReservation advance, Time now);
  void CancelReservation(std::uint64_t id);

  // --- Decisions ----------------------------------------------------------------------------------------------------

  /// Function that returns the job id for the next array element (or the job itself) of the entry that starts. By
  /// default a job keeps its id, and array elements get the ids after that of the array.
  using NameMember = std::function<JobId(JobId entry)>;

  /// Runs a scheduling cycle. The returned plan is applied to the cluster already: the jobs that it starts count as
  /// running, and those that it preempts as leaving.
  Plan Decide(Time now, const NameMember& name = {});
  /// For tests: like Decide, but tries the jobs of every class, not only those that a change may have helped, and
  /// leaves reservations as they are. Directly after Decide, it must start no job.
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
  /// Returns the jobs that are being moved and have not left their old place yet. Their new place, `to`, is reserved
  /// for them.
  std::vector<Move> moving() const;
  const Rules& rules() const;
  const Teams& teams() const;

  /// For tests: returns a description of the first inconsistency in the state; "" if there is none. Expensive.
  std::string CheckInvariants() const;

  ClusterState& state() { return *state_; }
  const ClusterState& state() const { return *state_; }

 private:
  std::unique_ptr<ClusterState> state_;
};

}  // namespace divvy::core
