// What a Cluster owns. Seen by the files of this folder only.
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "engine/core/state/cluster.h"
#include "engine/core/state/order.h"
#include "engine/line.h"
#include "engine/placement/fleet.h"

namespace divvy::core {

/// What makes jobs interchangeable, but for their place in line.
struct ClassKey {
  AskIndex ask = 0;
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
  Line line;  // Those that may be looked at.
  std::int64_t least_parts = 0;
  bool wants_gpu = false;
  Time head_changes_at = kNever;  // Somebody in the line escalates then.
  /// Anything may have become possible, not just what the grown nodes offer.
  bool is_fresh = false;
  std::uint64_t looked = 0;  // The round in which its head was last tried.
  /// No start could be promised as of this room_epoch: [1] to an escalated job.
  std::uint64_t hopeless[2] = {0, 0};
  /// It fits on what is usable when nothing else runs; as of `usable_epoch`.
  mutable bool could_run = true;
  mutable std::uint64_t checked_epoch = 0;
  std::uint64_t tried_epoch = 0;  // When it last looked for something to take, and found nothing.
  Time try_again = kNever;        // When time alone may have changed that.

  bool is_firm() const { return key.preemptible == Preemptible::kNever; }
};

/// The little of a class that a scan over all classes looks at; one cache line holds two.
struct Front {
  bool is_waiting = false;  // Somebody is in line.
  bool wants_gpu = false;
  TeamIndex team = kRootTeam;
  PoolIndex pool = kWholeCluster;
  bool is_plain = true;  // `shape` is all there is to it: one task, no alternatives.
  Shape shape;
  Time since = kNoTime;  // Of the head.
};

struct Waiting {
  enum class Lane : std::uint8_t { kReady, kDated, kParked };
  ClassIndex job_class = 0;
  std::uint32_t count = 1;
  std::uint32_t named = 0;  // Members of the array that have left it.
  Place place;
  Lane lane = Lane::kReady;
};

/// One piece of a running job, as its node sees it.
struct RunPiece {
  JobId job;
  Shape shape;
  GpuPlace place;
  Time started = kNoTime;
  Time end = kNever;  // By time limit.
  Time predicted_end = kNever;
  bool is_leaving = false;  // Its owner was told to give it back.
};

/// A stretch of time in which something is kept on a node.
struct Hold {
  JobId entry;  // For whom; not set: of a booking.
  std::uint64_t booking = 0;
  Shape shape;
  GpuPlace place;
  Time from = kNever;
  Time until = kNever;
  bool is_sure = false;      // `from` rests on time limits alone,
  bool ends_surely = false;  // and so does `until`.
  GpuSet closed;             // Of a booking that has begun: nobody else's, whatever of them its owners use.
  bool drains = false;       // `place` as it becomes free, which nobody can date.
  bool is_claim = false;     // Of what was taken for `entry`: it binds everybody, whatever their place in the order.
};

struct Node {
  NodeFacts facts;
  NodeState state;  // What is left: unusable GPUs count as taken.
  GpuSet blocked;   // Take no new work.
  GpuSet carved;    // Given over to MIG instances. `state` may say otherwise while something is only tried.
  bool accepts = true;
  bool has_grown = false;  // Since the last decision.
  std::vector<RunPiece> pieces;
  std::vector<Hold> holds;

  bool is_mixed() const { return !facts.gpu_kinds.empty(); }
};

/// What counts against a cap.
struct CapUse {
  std::int64_t jobs = 0;
  std::int64_t parts = 0;
};

/// caps.h has its rules.
struct Cap {
  std::string name;
  int limit = 0;  // Of jobs; 0: none.
  int running = 0;
  std::set<ClassIndex> classes;  // That have somebody in line.
  std::int64_t parts_limit = 0;  // Of the GPUs that they hold together; 0: none.
  std::int64_t parts = 0;

  bool is_bound() const { return limit > 0 || parts_limit > 0; }
};

struct PromiseSlot {
  Promise promise;
  Key key;
  ClassIndex job_class = 0;
  bool wants_gpu = false;
  bool is_stale = false;  // Its nodes changed; to be looked at again.
  bool is_lifted =
      false;             // It holds nothing at the moment, so that one before it can be placed; only inside a decision.
  bool is_lost = false;  // Lifted, and somebody else has what it held.
};

/// A job, or a piece of one, that goes on elsewhere once it has left where it is.
struct Moving {
  AskIndex ask = 0;
  std::vector<Piece> to;
  bool is_all = true;
};

struct Cluster::State {
  explicit State(Rules given, Duration half_life) : rules(given), teams(half_life) {}

  Rules rules;
  std::vector<PoolRules> pools = std::vector<PoolRules>(1);  // The first are those of `rules`.
  Teams teams;
  std::vector<Node> nodes;
  std::optional<placement::Fleet> fleet;  // Nodes with holds, and mixed ones, show no room here: they are looked at
  std::vector<NodeIndex> mixed;           // one by one.
  std::shared_ptr<const placement::Scorer> scorer;
  std::vector<Ask> asks;
  std::map<Ask, AskIndex> ask_index;
  std::vector<JobClass> classes;
  std::vector<Front> fronts;  // Of each class,
  std::vector<Key> keys;      // and its head's key.
  std::map<ClassKey, ClassIndex> class_index;
  struct TeamFront {
    bool is_set = false;
    std::int64_t parts = 0;  // Of its first job.
    std::array<std::int64_t, kTeamRanks> rank{};
  };
  // kFair: who is first in each team, as of the last round; pool by pool.
  std::vector<TeamFront> team_fronts;
  std::vector<Cap> caps;
  std::unordered_map<JobId, Waiting> waiting;  // For look-up only, as is `running`.
  std::unordered_map<JobId, Run> running;
  std::unordered_map<JobId, std::uint64_t> draws;  // Of those that wait to be placed at random. For look-up only.
  std::set<JobId> elastic;                         // Running, with room to grow or something to give.
  std::set<std::pair<Time, JobId>> ends;           // Run::expected of those where it is known.
  std::set<std::pair<Time, JobId>> dated;          // Waiting with a begin time ahead.
  std::set<NodeIndex> held;                        // Nodes with holds.
  std::vector<PromiseSlot> promises;               // By key.
  std::vector<Booking> bookings;
  std::uint64_t waiting_count = 0;
  std::vector<Carving> carvings;  // Since the last plan.
  // What changed since the last decision.
  std::vector<NodeIndex> grown;
  std::vector<ClassIndex> fresh;
  std::vector<ClassIndex> stale_heads;  // Somebody else is first in line.
  Time next_change = kNever;            // No head's key changes by itself before.
  bool must_find_head = true;
  std::uint64_t usable_epoch = 1;  // Counts changes of what is usable.
  /// Counts what can give a start to a job that could be promised none: something became free that no end announced.
  std::uint64_t room_epoch = 1;
  std::uint64_t round = 0;  // Rounds of all decisions.
  /// The first blocked job of each pool and kind (HeadOf) as of the last round; may be none.
  std::vector<JobId> heads = std::vector<JobId>(2);
  Time bookings_seen = kNoTime;
  std::set<ClassIndex> team_blocked;  // Were refused for a team's limit or quota since it last shrank.
  // Taking back.
  std::set<JobId> leaving;         // Running, with something that was told to leave.
  std::map<JobId, Moving> moving;  // Of them, those that go on elsewhere; `to` is held for them.
  /// JobClass::hopeless of all classes that ask for the same, while there are no bookings.
  std::vector<std::array<std::uint64_t, 2>> hopeless_asks;
  std::uint64_t take_epoch = 1;  // Counts what can have changed who may take from whom.
  Time take_again = kNever;      // When time alone may have.

  // --- cluster.cc
  void MakeFleet();
  void Rebuild(NodeIndex node);
  /// A node that is as it was bought.
  static NodeState EmptyState(const NodeFacts& facts);
  void Show(NodeIndex node);  // To the fleet.
  void Grow(NodeIndex node);
  void Freshen(ClassIndex index);
  void FreshenAll();
  ClassIndex ClassOf(const Job& job);
  void LineUp(Waiting& entry);
  void StepOut(JobId id, const Waiting& entry);
  void HeadChanged(ClassIndex index, Time now);
  Standing StandingOf(ClassIndex index, const Place& place) const;
  Key KeyAt(ClassIndex index, const Place& place, Time now) const;
  PoolIndex PoolOf(ClassIndex index) const { return fronts[index].pool; }
  const PoolRules& RulesOf(ClassIndex index) const { return pools[PoolOf(index)]; }
  bool IsEscalatedAt(ClassIndex index, Time since, Time now) const { return IsEscalated(RulesOf(index), since, now); }
  bool IsFair(ClassIndex index) const { return RulesOf(index).order == Order::kFair; }
  bool IsAnyFair() const;
  std::size_t HeadOf(ClassIndex index) const { return 2 * std::size_t{PoolOf(index)} + fronts[index].wants_gpu; }
  std::size_t FrontOf(ClassIndex index) const { return PoolOf(index) * teams.size() + fronts[index].team; }
  void FindTeamFronts(Time now);
  void TakePiece(JobId job, const Run& run, const Piece& piece);
  void DropPiece(JobId job, const Piece& piece);
  void AddRun(Run run, Time now);
  void Expect(Run& run, Time end);
  /// Those that should have ended by `now` are expected later. Whether there were any.
  bool PutOffOverdue(Time now);
  void CountStart(const JobClass& job_class, GpuUse use, int jobs, Time now);
  std::int64_t PartsOf(const Run& run) const { return UseOf(run).parts; }
  GpuUse UseOf(const Run& run) const;
  /// What places the next member of an entry at random; 0 for one that is not.
  std::uint64_t DrawOf(JobId entry) const;
  const Ask& ask_of(const Run& run) const { return asks[classes[run.job_class].key.ask]; }

  // --- holds.cc
  void AddHold(NodeIndex node, Hold hold);
  void DropHolds(NodeIndex node, JobId entry, std::uint64_t booking);
  void DropPromise(std::size_t index);
  void FreshenRights(ClassIndex index);  // Those that share a cap or a team with it, and it.
  void DropBooking(std::size_t index);
  /// Bookings that have begun are open to their owners from now on; those that are over bind nobody.
  void TurnBookings(Time now);

  // --- take_back.cc
  void MarkLeaving(JobId id, const std::vector<Piece>& pieces);
  void DropMoving(JobId id);
  void ResumeMoved(JobId id, Time now);
};

/// Expected end, seen at `now`, ahead of it: an overdue one is put off by twice as much each time. kNever: nobody
/// knows.
Time EndOf(const Rules& rules, const RunPiece& piece, Time now);
Time EndOf(const Rules& rules, const Run& run, Time now);

}  // namespace divvy::core
