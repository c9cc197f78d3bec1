// Which running jobs give way so that one blocked job starts, at the least cost.
//
// Cost, compared in this order, summed over the victims:
//   1. what is taken from teams that hold no more than their share (for another's quota): else they would take it back
//   2. lost work: run time x GPUs; of a job that is stopped and continued (kPause) at most a minute of it, which is
//   what
//      parking and resuming take; an elastic job's surplus costs none
//   3. jobs stopped
//   4. GPUs, in parts, that change hands
//   5. between teams: how little above its share the victim's team is
//   6. priorities
//   7. time since they were queued
// Among equal sets the one with the lowest priorities and the youngest jobs, wherever they lie.
//
// A task runs on one node, so for a job of one task the cheapest set lies on one node: each node is searched on its
// own. Up to kExactVictims jobs are searched exactly, by subsets with pruning; more of them greedily: the cheapest are
// taken until the job fits, then those that turn out not to be needed are left, the dearest first.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "engine/core/cycle/take_back_rights.h"
#include "engine/core/cycle/take_back_trial.h"
#include "engine/core/place/placing.h"

namespace divvy::core {

inline constexpr std::size_t kExactVictims = 12;
/// Greedy searches look at no more.
inline constexpr std::size_t kMostVictims = 256;
/// Steps of one search; a bound for large clusters, never reached by small ones.
inline constexpr int kMostSteps = 20'000;
/// What stopping and continuing a job costs at most.
inline constexpr Duration kPauseCost = std::chrono::minutes(1);

enum class TakeMode { kMove, kReclaim, kPreempt };

using Toll = std::array<std::int64_t, 7>;

/// What a taker gets, and from whom.
struct Seizure {
  struct Part {
    JobId job;
    std::vector<Piece> from;
    std::vector<Piece> to;  // Empty: it is queued again.
    bool is_all = true;     // Else an elastic job's surplus.
  };
  std::vector<Piece> place;
  std::vector<Part> parts;
  Toll toll{};
};

struct Taker {
  ClassIndex job_class = 0;
  Place place;
};

class Search {
 public:
  /// `started`: jobs that this decision started are left to start.
  Search(Cluster::State& state, Time now, const Taker& taker, const std::set<JobId>& started);

  /// It fits once those have left that are leaving anyway.
  std::optional<Seizure> Nothing();
  /// `moves_all`: every victim goes on elsewhere.
  std::optional<Seizure> Find(TakeMode mode, bool moves_all);

  /// When a job that is too young to be taken from comes of age; kNever: there is none.
  Time again_at() const { return again_at_; }

 private:
  /// Among equal victims the smaller goes: of lower priority, then the younger, then the later one.
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
    std::vector<Piece> surplus;  // In the order in which it goes.
    Toll toll{};                 // Of the whole job.
    std::vector<std::int64_t> surplus_parts;
    std::int64_t parts = 0;
    bool is_within = false;  // Its team holds no more than its share.
    std::int64_t evenness = 0;
    Rank rank;
  };
  /// How much of a victim is taken: 0 nothing, up to surplus.size() that much of the surplus, one more: all.
  struct Choice {
    std::size_t victim = 0;
    std::size_t level = 0;
  };

  std::vector<Victim> Collect(TakeMode mode);
  bool MayBeTaken(TakeMode mode, const Run& run);
  Victim Describe(const Run& run) const;
  std::vector<Piece> PiecesOf(const Choice& choice) const;
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
  /// Cheaper than the best, or as cheap and better by rank.
  bool IsBetter(const Toll& toll, const std::vector<Choice>& set) const;
  std::vector<Rank> RanksOf(const std::vector<Choice>& set) const;
  bool Accept(const Toll& toll);
  Length LengthAfterGrace(const ClassKey& key) const;
  std::vector<Piece> PlaceTaker();
  bool PlaceVictims(Seizure& seizure);

  Cluster::State& state_;
  Time now_;
  Taker taker_;
  const JobClass& taker_class_;
  const Ask& ask_;
  const std::set<JobId>& started_;
  Rights rights_;
  Trial trial_;
  TakeMode mode_ = TakeMode::kMove;
  bool moves_all_ = false;
  std::optional<NodeIndex> node_;  // The only one looked at.
  std::vector<Victim> victims_;
  std::vector<Choice> chosen_;
  std::optional<Seizure> best_;
  std::vector<Rank> best_ranks_;
  int steps_left_ = 0;
  Time again_at_ = kNever;
};

}  // namespace divvy::core
