// The cluster as the engine knows it: nodes, the jobs that wait, the jobs that run, and what is held for whom. One fact
// at a time goes in; Decide turns what changed since into a plan and applies it here.
//
// It is a state machine without a clock: the same facts and times give the same plans. The live daemon and the
// simulator use this class alike.
//
// Cost. Jobs that ask for the same thing form a class and stand in one line. After a decision nobody who waits can
// start; so an event has to look only at the classes that fit on the nodes it freed, or at the class that it added to,
// never at the rest of the cluster or at other jobs of a class. docs/engine.md has the figures.
//
// Invariants (CheckInvariants re-derives them): what a node has left is its capacity less its pieces; no GPU carries
// more than it has; every running job has its pieces and every class its line; team and cap sums are those of the jobs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/state/ask.h"
#include "engine/core/state/rules.h"
#include "engine/core/state/teams.h"
#include "engine/gpu_sets.h"
#include "engine/placement/scorer.h"

namespace divvy::core {

struct NodeFacts {
  std::string name;
  std::int32_t cpu_milli = 0;  // Below 0: nothing fits, not even what asks for none.
  std::int32_t memory_mib = 0;
  int gpus = 0;
  /// Index of what a request may insist on: GPU model, pool and features together. Below placement::kMaxModels.
  int kind = 0;
  /// The kind of each GPU, where they differ; then `kind` is the node's own, and a shape that any of its GPUs serves
  /// allows that one as well. Empty: all are of `kind`.
  std::vector<std::uint8_t> gpu_kinds;
  /// Memory of each GPU, MiB. Empty: not counted.
  std::vector<std::int32_t> gpu_memory_mib;
  /// GPUs that can be cut into MIG instances while nothing else runs on them.
  GpuSet sliceable;
  /// Those of them that take nothing else.
  GpuSet only_sliced;
  /// Of the GPU alone: tasks of one job run on one model.
  int gpu_model = 0;
  /// That of each GPU, on a node that has `gpu_kinds`. Empty: all are of `gpu_model`.
  std::vector<int> gpu_models;
  std::uint32_t rack = 0;
  std::uint32_t block = 0;
  std::shared_ptr<const GpuTopology> topology;  // Null: all GPUs reach each other alike.
};

/// A job that waits, or the rest of an array: `count` equal members that leave one by one.
struct Job {
  JobId id;
  std::uint32_t count = 1;
  AskIndex ask = 0;
  TeamIndex team = kRootTeam;
  UserIndex user = 0;
  int priority = 0;
  Time queued_at = kNoTime;
  Time begin = kNoTime;
  Duration limit{0};           // 0: none.
  Duration predicted{0};       // 0: not known.
  std::vector<CapIndex> caps;  // Ascending, each once.
  Preemptible preemptible = Preemptible::kNever;
  bool is_parked = false;  // Held, or waits for other jobs.
  std::uint64_t draw = 0;  // Of PlacementStrategy::kRandom, drawn outside; members of an array vary it by themselves.
};

/// A job that has its pieces.
struct Run {
  JobId id;
  ClassIndex job_class = 0;
  int priority = 0;
  Time queued_at = kNoTime;
  std::vector<Piece> pieces;
  Time started = kNoTime;
  Time end = kNever;  // By its time limit.
  Time predicted_end = kNever;
  Time expected = kNever;      // Its end as far as can be said, as of the last decision; kept by the cluster.
  bool is_leaving = false;     // Was told to give all its pieces back.
  std::vector<Piece> leaving;  // Of an elastic job that stays: what it was told to give back.
};

struct Start {
  JobId job;    // As the caller named the member.
  JobId entry;  // Who waited.
  std::vector<Piece> pieces;
  bool is_backfilled = false;
  JobId passed;  // The first blocked job that it passed; not set: nobody.
  /// What that one was promised at that moment: a start, or kNever where it drains. kNoTime: nothing.
  Time passed_start = kNoTime;
};

/// Pieces that a running job gives back: all of them, or an elastic job's surplus.
struct Taking {
  JobId job;
  std::vector<Piece> pieces;
  bool is_all = true;
  JobId taker;
};

/// A running job goes on elsewhere.
struct Move {
  JobId job;
  std::vector<Piece> from;
  std::vector<Piece> to;
  JobId taker;
};

/// An elastic job gets more.
struct Growth {
  JobId job;
  std::vector<Piece> pieces;
};

/// An idle GPU is given over to MIG instances (carved), or is made whole again (merged), before what needs it starts.
/// Instances themselves are made and removed with the pieces that lie on them.
struct Carving {
  NodeIndex node = 0;
  int gpu = 0;
  bool is_merge = false;
  JobId taker;
};

/// What is held for a job that waits.
struct Promise {
  JobId entry;
  Time start = kNever;    // kNever: it drains `pieces`, whose ends nobody knows.
  bool is_sure = false;   // By time limits alone; else by predictions.
  bool is_claim = false;  // What it waits for was taken from others and is about to be free.
  std::vector<Piece> pieces;
};

struct Plan {
  std::vector<Carving> carvings;
  std::vector<Start> starts;  // In the order decided.
  std::vector<Taking> takings;
  std::vector<Move> moves;
  std::vector<Growth> growths;
  /// When the clock alone can change the plan; kNever: only an event can.
  Time next_wakeup = kNever;
};

/// GPUs that are kept for somebody in a stretch of time.
struct Booking {
  std::uint64_t id = 0;
  std::vector<Piece> pieces;  // Shape: whole GPUs.
  AskIndex ask = 0;
  TeamIndex team = kRootTeam;
  std::optional<UserIndex> user;  // Nothing: everybody of the team.
  Time from = kNoTime;
  Time until = kNever;
};

class KindBook;
class KindChange;

class Cluster {
 public:
  explicit Cluster(Rules rules, Duration usage_half_life = std::chrono::hours(24 * 7));
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;
  /// What-if questions are asked of a copy.
  Cluster Copy() const;

  // --- Facts --------------------------------------------------------------------------------------------------------

  /// Nodes are added before the first decision or between two; the order is the order of equally good nodes.
  NodeIndex AddNode(NodeFacts facts);
  /// `usable`: GPUs that take new work; `accepts`: the node does at all. What runs there stays.
  void SetUsable(NodeIndex node, GpuSet usable, bool accepts);
  /// How good nodes are for requests; "best", "pack" ... Made outside, because it depends on what is usually asked.
  void SetScorer(std::shared_ptr<const placement::Scorer> scorer);
  void SetRules(Rules rules);
  /// Nodes are told apart in another way, or some are something else now: nodes and asks (TaskGroup::filters) get the
  /// book's kinds. Where nodes were only told apart more or less finely, no decision becomes another one. The scorer is
  /// made anew with it because it knows kinds by number; null: any room is as good. Requires: the book has these nodes.
  void SetKinds(const KindBook& book, const KindChange& change, std::shared_ptr<const placement::Scorer> scorer);
  /// A line of its own for those who ask for it (Ask::pool).
  PoolIndex AddPool(PoolRules rules);
  void SetPool(PoolIndex pool, PoolRules rules);
  Teams& teams();
  /// After Reset of the teams: counts everything anew.
  void RecountTeams(Time now);
  /// Jobs at once, and ten-thousandths of GPUs that these hold together; 0: no limit.
  CapIndex AddCap(std::string name, int limit, std::int64_t parts_limit = 0);
  void SetCap(CapIndex cap, int limit, std::int64_t parts_limit);

  AskIndex Know(const Ask& ask);

  /// Adds a job that waits, or replaces the one of the same id.
  void Put(Job job, Time now);
  /// A job that waits leaves the queue. Requires: it waits.
  void Remove(JobId id, Time now);
  /// Takes in a running job that was not waiting. Requires: its pieces are free.
  void Adopt(const Job& job, std::vector<Piece> pieces, Time started, Time now);
  /// A running job has ended, or part of it was given back.
  void Finish(JobId id, Time now);
  void GiveBack(JobId id, const std::vector<Piece>& pieces, Time now);
  void SetEnd(JobId running, Time end);
  /// It was told to end: what it holds is about to be free. Requires: it runs.
  void SetLeaving(JobId running);
  /// Holds nodes for a team or user: its pieces where it has some, whoever is there. Nothing when there is no room.
  std::optional<Booking> Book(Booking booking, Time now);
  void Unbook(std::uint64_t id);

  // --- Decisions ----------------------------------------------------------------------------------------------------

  /// How the next member of an entry is called once it runs; by default a job keeps its id and members of an array get
  /// the ids behind it.
  using NameMember = std::function<JobId(JobId entry)>;

  /// What follows from everything up to now. The plan has been applied when this returns: starts run, takings leave.
  Plan Decide(Time now, const NameMember& name = {});
  /// Starts whom Decide would start, looking at every class and not only at those that a change can have helped;
  /// promises stay as they are. After Decide it starts nobody: a test holds Decide to that.
  Plan DecideAnew(Time now, const NameMember& name = {});

  // --- Questions ----------------------------------------------------------------------------------------------------

  std::size_t node_count() const;
  const NodeFacts& node(NodeIndex node) const;
  const NodeState& state_of(NodeIndex node) const;
  const Ask& ask(AskIndex index) const;
  const Run* running(JobId id) const;
  bool is_waiting(JobId id) const;
  std::uint64_t waiting_count() const;
  std::size_t running_count() const;
  std::vector<Promise> promises() const;
  /// Jobs that go on elsewhere and have not left yet; `to` is held for them.
  std::vector<Move> moving() const;
  const Rules& rules() const;
  const Teams& teams() const;

  /// Empty when all is well; else the first broken invariant. Expensive.
  std::string CheckInvariants() const;

  struct State;
  State& state() { return *state_; }
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

}  // namespace divvy::core
