// The data of a Cluster. Internal to engine/core.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/class_queue.h"
#include "engine/core/state/cluster_facts.h"
#include "engine/core/state/order.h"
#include "engine/core/state/rules.h"
#include "engine/core/state/teams.h"
#include "engine/placement/fleet.h"
#include "engine/placement/scorer.h"

namespace divvy::core {

class NodeClassIndex;
class NodeClassChange;

/// Everything that distinguishes jobs for scheduling, except their position in the queue.
struct ClassKey {
  RequestIndex request = 0;
  TeamIndex team = kRootTeam;
  UserIndex user = 0;
  Duration limit{0};
  Duration predicted{0};
  std::vector<CapIndex> caps;
  Preemptible preemptible = Preemptible::kNever;

  friend auto operator<=>(const ClassKey&, const ClassKey&) = default;
};

struct JobClass {
  ClassKey key;
  ClassQueue queue;  // The members that are ready to start.
  std::int64_t least_parts = 0;
  bool wants_gpu = false;
  Time head_changes_at = kNever;  // When the next job in the queue escalates.
  /// Any node may have become possible for the class, not only the grown ones.
  bool is_fresh = false;
  std::uint64_t looked = 0;  // The round in which its head was last tried.
  /// No start could be reserved as of this room_epoch (with time limits alone: as of this minute); by ReservationBasis.
  std::uint64_t hopeless[3] = {0, 0, 0};
  /// Whether it fits on the usable nodes when they are empty; as of usable_epoch `checked_epoch`.
  mutable bool could_run = true;
  mutable std::uint64_t checked_epoch = 0;
  /// The GPU parts of the usable nodes that suit it; as of usable_epoch `suits_epoch`.
  mutable std::int64_t suiting_parts = 0;
  mutable std::uint64_t suits_epoch = 0;
  std::uint64_t tried_epoch = 0;  // The preempt_epoch at its last search for victims, which found none.
  Time try_again = kNever;        // When the passing of time may change that result.

  bool is_firm() const { return key.preemptible == Preemptible::kNever; }
};

/// The fields of a class that a scan over all classes reads; two fit in one cache line.
struct QueueHead {
  bool is_waiting = false;  // The class's queue is not empty.
  bool wants_gpu = false;
  TeamIndex team = kRootTeam;
  PoolIndex pool = kWholeCluster;
  bool is_plain = true;  // `shape` describes the whole request: one task without alternatives.
  Shape shape;
  Time since = kNoTime;  // Place::since of the head.
};

struct Waiting {
  enum class Lane : std::uint8_t { kReady, kDated, kParked };
  ClassIndex job_class = 0;
  std::uint32_t count = 1;
  std::uint32_t named = 0;  // Array members that have left the entry.
  Place place;
  Lane lane = Lane::kReady;
};

/// One placement of a running job, as stored on its node.
struct RunningTask {
  JobId job;
  Shape shape;
  GpuPlace place;
  Time started = kNoTime;
  Time end = kNever;  // By its time limit.
  Time predicted_end = kNever;
  bool is_leaving = false;  // The job was told to release it.
};

/// Resources of a node that are reserved during a time interval.
struct ReservedCapacity {
  JobId entry;  // The job that it is reserved for; unset for an advance reservation.
  std::uint64_t advance = 0;
  Shape shape;
  GpuPlace place;
  Time from = kNever;
  Time until = kNever;
  bool is_sure = false;        // `from` rests on time limits alone.
  bool ends_surely = false;    // `until` rests on time limits alone.
  GpuSet closed;               // For a started advance reservation: GPUs closed to other jobs, also those in use by its
                               // owners.
  bool drains = false;         // Reserves `place` as it becomes free, at an unknown time.
  bool is_nomination = false;  // Preempted for `entry` (a nomination): binding for all jobs, whatever their queue
                               // position.
};

struct Node {
  NodeFacts facts;
  NodeState state;  // The free resources; unusable GPUs count as taken.
  GpuSet blocked;   // GPUs that take no new work.
  GpuSet carved;    // GPUs in MIG mode. state.carved may differ while a what-if is open.
  bool accepts = true;
  bool has_grown = false;  // Resources were freed since the last decision.
  std::vector<RunningTask> placements;
  std::vector<ReservedCapacity> reserved;

  bool is_mixed() const { return !facts.gpu_classes.empty(); }
};

/// Usage that counts against a cap.
struct CapUse {
  std::int64_t jobs = 0;
  std::int64_t parts = 0;
};

/// A limit on a group of jobs; see caps.h.
struct Cap {
  std::string name;
  int limit = 0;  // Maximum number of running jobs; 0: none.
  int running = 0;
  std::set<ClassIndex> classes;  // Classes with a nonempty queue that count against it.
  std::int64_t parts_limit = 0;  // Maximum GPU parts that the jobs hold together; 0: none.
  std::int64_t parts = 0;

  bool is_bound() const { return limit > 0 || parts_limit > 0; }
};

struct ReservationSlot {
  BackfillReservation reservation;
  Key key;
  ClassIndex job_class = 0;
  bool wants_gpu = false;
  bool is_stale = false;   // Its nodes changed, so it must be checked again.
  bool is_lifted = false;  // Its reserved capacity is lifted for a moment so that an earlier job can be placed;
                           // only inside a decision.
  bool is_lost = false;    // It was lifted, and another job took its resources.
};

/// A migrating job, or a moved placement of one, that has not left its old place yet.
struct Moving {
  RequestIndex request = 0;
  std::vector<TaskPlacement> to;
  bool is_all = true;
};

struct ClusterState {
  explicit ClusterState(Rules given, Duration half_life) : rules(given), teams(half_life) {}

  Rules rules;
  std::vector<PoolRules> pools = std::vector<PoolRules>(1);  // [0] is the inherited part of `rules`.
  Teams teams;
  std::vector<Node> nodes;
  // Nodes that are mixed or have reserved capacity show no room here; they are examined one by one.
  std::optional<placement::Fleet> fleet;
  std::vector<NodeIndex> mixed;
  std::shared_ptr<const placement::Scorer> scorer;
  std::vector<ResourceRequest> requests;
  std::map<ResourceRequest, RequestIndex> request_index;
  std::vector<JobClass> classes;
  // Per class: what scans need, and the key of its head.
  std::vector<QueueHead> queue_heads;
  std::vector<Key> keys;
  std::map<ClassKey, ClassIndex> class_index;
  struct TeamHead {
    bool is_set = false;
    std::int64_t parts = 0;  // The GPU parts of the team's first job.
    std::array<std::int64_t, kTeamRanks> rank{};
  };
  // For kFair: the first job of each team as of the last round; indexed by TeamHeadOf.
  std::vector<TeamHead> team_heads;
  std::vector<Cap> caps;
  std::unordered_map<JobId, Waiting> waiting;  // For look-up only, never iterated for decisions; so is `running`.
  std::unordered_map<JobId, Run> running;
  std::unordered_map<JobId, std::uint64_t> draws;  // Entries that wait for random placement. For look-up only.
  std::size_t limited_runs = 0;                    // Running jobs with a time limit.
  std::set<JobId> elastic;                         // Running elastic jobs.
  std::set<std::pair<Time, JobId>> ends;           // Run::expected of the running jobs that have one.
  std::set<std::pair<Time, JobId>> dated;          // Waiting jobs with a begin time in the future.
  std::set<NodeIndex> held;                        // Nodes with reserved capacity.
  std::vector<ReservationSlot> reservations;       // Sorted by key.
  std::vector<AdvanceReservation> advance_reservations;
  std::uint64_t waiting_count = 0;
  std::vector<Carving> carvings;  // Since the last plan was returned.
  // Changes since the last decision.
  std::vector<NodeIndex> grown;
  std::vector<ClassIndex> fresh;
  std::vector<ClassIndex> stale_heads;  // Classes whose head changed.
  Time next_change = kNever;            // Until then no head's key changes through time alone.
  bool must_find_head = true;
  std::uint64_t usable_epoch = 1;  // Counts changes of the usable nodes and GPUs.
  /// Counts events that may let a job get a reservation that it could not get before: resources became free
  /// unexpectedly.
  std::uint64_t room_epoch = 1;
  std::uint64_t round = 0;  // Counts the rounds of all decisions.
  /// The first blocked job of each pool, separately for jobs with and without GPUs (HeadOf), as of the last pass over
  /// the queue. An id may be unset.
  std::vector<JobId> heads = std::vector<JobId>(2);
  Time advance_seen = kNoTime;
  std::set<ClassIndex> team_blocked;  // Classes refused for a team's limit or quota since the team last shrank.
  // Preemption.
  std::set<JobId> leaving;         // Running jobs that were told to release something.
  std::map<JobId, Moving> moving;  // Those of `leaving` that are migrated; Moving::to is reserved for them.
  /// JobClass::hopeless, shared by all classes with the same ResourceRequest, as long as there are no advance
  /// reservations.
  std::vector<std::array<std::uint64_t, 3>> hopeless_requests;
  std::uint64_t preempt_epoch = 1;  // Counts changes that may affect who may preempt whom.
  Time preempt_again = kNever;      // When time alone may change that.

  // --- state.cc
  void MakeFleet();
  void Rebuild(NodeIndex node);
  /// The state of a node without jobs and with all GPUs usable.
  static NodeState EmptyState(const NodeFacts& facts);
  void Show(NodeIndex node);  // Updates the node in the fleet.
  void Grow(NodeIndex node);
  void Freshen(ClassIndex index);
  void FreshenAll();
  ClassIndex ClassOf(const Job& job);
  void Enqueue(Waiting& entry);
  void Dequeue(JobId id, const Waiting& entry);
  void HeadChanged(ClassIndex index, Time now);
  Standing StandingOf(ClassIndex index, const Place& place) const;
  Key KeyAt(ClassIndex index, const Place& place, Time now) const;
  PoolIndex PoolOf(ClassIndex index) const { return queue_heads[index].pool; }
  const PoolRules& RulesOf(ClassIndex index) const { return pools[PoolOf(index)]; }
  bool IsEscalatedAt(ClassIndex index, Time since, Time now) const { return IsEscalated(RulesOf(index), since, now); }
  bool IsFair(ClassIndex index) const { return RulesOf(index).order == QueuePolicy::kFair; }
  bool IsAnyFair() const;
  std::size_t HeadOf(ClassIndex index) const { return 2 * std::size_t{PoolOf(index)} + queue_heads[index].wants_gpu; }
  std::size_t TeamHeadOf(ClassIndex index) const { return PoolOf(index) * teams.size() + queue_heads[index].team; }
  void FindTeamHeads(Time now);

  // --- cluster_running.cc
  void TakePlacement(JobId job, const Run& run, const TaskPlacement& placed);
  void DropPlacement(JobId job, const TaskPlacement& placed);
  void AddRun(Run run, Time now);
  void Expect(Run& run, Time end);
  /// Sets a later expected end for running jobs that should have ended by `now`. Returns true if there were any.
  bool PutOffOverdue(Time now);
  void CountStart(const JobClass& job_class, GpuUse use, int jobs, Time now);
  std::int64_t PartsOf(const Run& run) const { return UseOf(run).parts; }
  GpuUse UseOf(const Run& run) const;
  /// Returns the random number that decides where the next job of an entry is placed; 0 if it is not placed at random.
  std::uint64_t DrawOf(JobId entry) const;
  const ResourceRequest& request_of(const Run& run) const { return requests[classes[run.job_class].key.request]; }

  // --- reserved_capacity.cc
  void AddReserved(NodeIndex node, ReservedCapacity reserved);
  void DropReserved(NodeIndex node, JobId entry, std::uint64_t advance);
  void DropReservation(std::size_t index);
  void FreshenRights(ClassIndex index);  // Marks the class and all classes that share a cap or a team limit with it for
                                         // re-examination.
  void DropAdvanceReservation(std::size_t index);
  /// Lets jobs of their owners use advance reservations that have begun, and drops those that are over.
  void UpdateAdvanceReservations(Time now);
};

/// Returns the expected end of a running task, always after `now`; kNever: unknown. If the task should have ended
/// already, the end is postponed, by twice as much each time.
Time EndOf(const Rules& rules, const RunningTask& placed, Time now);
Time EndOf(const Rules& rules, const Run& run, Time now);

/// Gives nodes and requests the classes of `class_index` (cluster_node_classes.cc). See Cluster::SetNodeClasses.
void Reclassify(ClusterState& state, const NodeClassIndex& class_index, const NodeClassChange& change);
/// For tests: returns a description of the first inconsistency in the state; "" if there is none. Expensive.
std::string BrokenInvariant(const ClusterState& state);

}  // namespace divvy::core
