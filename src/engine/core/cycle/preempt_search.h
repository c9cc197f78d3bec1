// Searches for the running jobs to preempt so that one blocked job starts, at the lowest cost.
//
// The cost has these components, compared in this order and summed over the victims:
//   1. what is taken from teams that hold no more than their share (for another's quota); otherwise they would reclaim
//      it again
//   2. lost work: run time x GPUs. At most a minute of it for a job that is paused and resumed (kPause), which is what
//      parking and resuming take; none for an elastic job's surplus
//   3. jobs stopped
//   4. GPU parts that change hands
//   5. between teams: how little the victim's team is above its share
//   6. priorities
//   7. time since they were queued
// Among equal sets, the one with the lowest priorities and the youngest jobs, on whichever nodes.
//
// A task runs on one node, so for a preemptor of one task the cheapest set is on one node: each node is searched
// separately. Up to kExactVictims jobs are searched exactly, by subsets with pruning. More are searched greedily: the
// cheapest are taken until the job fits, then unneeded ones are dropped, the most expensive first.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "engine/core/cycle/preemption_policy.h"
#include "engine/core/cycle/statement.h"
#include "engine/core/place/placer.h"

namespace divvy::core {

inline constexpr std::size_t kExactVictims = 12;
/// Greedy searches consider at most this many.
inline constexpr std::size_t kMostVictims = 256;
/// The maximum number of steps of one search; only large clusters reach it.
inline constexpr int kMostSteps = 20'000;
/// The maximum cost of pausing and resuming a job.
inline constexpr Duration kPauseCost = std::chrono::minutes(1);

enum class PreemptMode { kMove, kReclaim, kPreempt };

using Toll = std::array<std::int64_t, 7>;

/// A set of victims, and the place that the preemptor gets.
struct Seizure {
  struct Part {
    JobId job;
    std::vector<TaskPlacement> from;
    std::vector<TaskPlacement> to;  // Empty: the victim is requeued.
    bool is_all = true;             // False: only an elastic job's surplus.
  };
  std::vector<TaskPlacement> place;
  std::vector<Part> parts;
  Toll toll{};
};

struct Preemptor {
  ClassIndex job_class = 0;
  Place place;
};

class Search {
 public:
  /// Searches for running jobs to preempt so that `preemptor` can start. `started`: jobs that this scheduling cycle has
  /// started; they are not preempted.
  Search(ClusterState& state, Time now, const Preemptor& preemptor, const std::set<JobId>& started);

  /// Returns a result without victims if the preemptor fits once the jobs that were already told to leave have left;
  /// otherwise nullopt.
  std::optional<Seizure> Nothing();
  /// Returns the cheapest set of victims with which the preemptor can start; nullopt if there is none. `moves_all`:
  /// only jobs that fit on other resources are victims, and they are moved there.
  std::optional<Seizure> Find(PreemptMode mode, bool moves_all);

  /// Returns the next time at which a job that has not run long enough to be preempted will have; kNever if there is
  /// none.
  Time again_at() const { return again_at_; }

 private:
  /// The order of victims with equal cost: lower priority first, then the one queued later, then the higher job id.
  using Rank = std::tuple<int, std::int64_t, std::uint64_t>;
  static Rank RankOf(const Run& run) {
    return {run.priority, -run.queued_at.time_since_epoch().count(), ~run.id.value()};
  }
  struct Victim {
    JobId job;
    const Run* run = nullptr;
    TeamIndex team = kRootTeam;
    int priority = 0;
    bool can_move = false;
    std::vector<TaskPlacement> surplus;  // In the order in which it is released.
    Toll toll{};                         // Cost of preempting the whole job.
    std::vector<std::int64_t> surplus_parts;
    std::int64_t parts = 0;
    bool is_within = false;  // Its team holds no more than its share.
    std::int64_t evenness = 0;
    Rank rank;
  };
  /// How much of a victim is taken. 0: nothing; up to surplus.size(): that many surplus placements; one more: the whole
  /// job.
  struct Choice {
    std::size_t victim = 0;
    std::size_t level = 0;
  };

  std::vector<Victim> Collect(PreemptMode mode);
  bool MayBeTaken(PreemptMode mode, const Run& run);
  Victim Describe(const Run& run) const;
  std::vector<TaskPlacement> PlacementsOf(const Choice& choice) const;
  Toll TollOf(const Choice& choice) const;
  bool IsAll(const Choice& choice) const { return choice.level > victims_[choice.victim].surplus.size(); }
  std::vector<Loss> LossesOf(const std::vector<Choice>& set) const;
  bool IsAllowed(const std::vector<Loss>& losses, bool is_empty) const;

  void SearchNode(NodeIndex node, std::vector<Victim> victims);
  void SearchHere();
  void Descend(std::size_t first, const Toll& toll);
  void Greedy();
  void RemoveChoice(const Choice& choice);
  bool CouldFit() const;
  /// Returns true if this set of victims, with cost `toll`, is cheaper than the best set so far, or equally cheap and
  /// preferred by Rank.
  bool IsBetter(const Toll& toll, const std::vector<Choice>& set) const;
  std::vector<Rank> RanksOf(const std::vector<Choice>& set) const;
  /// Makes the chosen victims, which cost `toll`, the best set so far. Returns false if the rules forbid it, or if the
  /// preemptor or a victim that must move fits nowhere.
  bool Accept(const Toll& toll);
  Length LengthAfterGrace(const ClassKey& key) const;
  std::vector<TaskPlacement> PlacePreemptor();
  bool PlaceVictims(Seizure& seizure);

  ClusterState& state_;
  Time now_;
  Preemptor preemptor_;
  const JobClass& preemptor_class_;
  const ResourceRequest& request_;
  const std::set<JobId>& started_;
  PreemptionPolicy policy_;
  Statement statement_;
  PreemptMode mode_ = PreemptMode::kMove;
  bool moves_all_ = false;
  std::optional<NodeIndex> node_;  // If set, the only node considered.
  std::vector<Victim> victims_;
  std::vector<Choice> chosen_;
  std::optional<Seizure> best_;
  std::vector<Rank> best_ranks_;
  int steps_left_ = 0;
  Time again_at_ = kNever;
};

}  // namespace divvy::core
