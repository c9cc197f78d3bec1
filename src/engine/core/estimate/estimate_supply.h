// What running jobs will leave, and when, on the nodes that could serve one job: the two questions that an estimate
// asks of it are from when a node has room for it, and when those ahead of it have had their turn. Who has a turn takes
// of the nodes, and of what its caps and its team's bounds leave, until its expected end.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "engine/core/estimate/estimate.h"
#include "engine/core/estimate/estimate_limits.h"
#include "engine/core/estimate/estimate_stock.h"
#include "engine/core/place/explain_ahead.h"
#include "engine/core/place/explain_view.h"

namespace divvy::core {

enum class Outcome : std::uint8_t { kEarliest, kTypical, kLatest };

/// An expected end, seen at `now`: never before it. kNever: nobody knows.
class EndTimes {
 public:
  EndTimes(const Rules& rules, Time now, Outcome outcome, const SpreadOf* spread)
      : rules_(rules), now_(now), outcome_(outcome), spread_(spread) {}

  Time Of(JobId job, Time started, Time end, Time predicted_end) const;
  Time Of(const RunPiece& piece) const { return Of(piece.job, piece.started, piece.end, piece.predicted_end); }
  Time Of(const Run& run) const { return Of(run.id, run.started, run.end, run.predicted_end); }
  /// How long a job that waits will run; nothing: not known.
  std::optional<Duration> Length(JobId entry, const ClassKey& key) const;

 private:
  std::optional<RunSpread> Spread(JobId job) const { return spread_ && *spread_ ? (*spread_)(job) : std::nullopt; }

  const Rules& rules_;
  Time now_;
  Outcome outcome_;
  const SpreadOf* spread_;
};

class Supply {
 public:
  /// `spread`: null where none is to be asked for; then kEarliest is not known.
  Supply(const View& view, const Ahead& ahead, const SpreadOf* spread);

  struct Moment {
    Time at = kNever;
    std::vector<JobId> waits_for;  // Whose ends decide; at kNever, whose ends nobody knows.
    std::uint64_t behind = 0;      // Members ahead that it waits for.
    std::uint64_t endless = 0;     // Of these, those that nobody can date.
    bool ends_booking = false;     // It is then that a booking is over.
    std::string limit;             // The limit that lets it last, by whose jobs it counts; empty: none is known.
  };
  /// From when a node, or as many as it takes, has room for it, as far as running jobs go. Where that is no later than
  /// `soon` it may be any time up to it: the search ends there.
  Moment Fits(Outcome outcome, Time soon) const;
  struct Turn {
    Moment supply;  // From when there is enough in sum,
    Moment limits;  // and from when its caps and its team's bounds let it.
  };
  /// Those ahead served.
  Turn Served(Outcome outcome) const;
  /// Somebody ahead whom a limit keeps back will want something of these nodes once it lets them.
  bool may_be_passed() const { return may_be_passed_; }

 private:
  /// What members ahead of one class will take of these nodes, and of limits.
  struct Work {
    ClassIndex job_class = 0;
    std::uint64_t members = 0;
    std::int64_t units = 0;                         // Of each; 0: it goes elsewhere.
    std::array<std::optional<Duration>, 3> length;  // By outcome; nothing: not known.
    std::uint64_t stepped = 0;                      // Members in stepped_.
    std::uint64_t promised = 0;                     // Members that have a promise.
    std::vector<Limits::Use> uses;
    bool is_bound_apart = false;  // By a limit that does not bind the job itself: others pass it.
  };
  /// What bookings keep from the job on one node, each until it is over: also of one ahead that the job would run into.
  struct Closed {
    struct Stretch {
      GpuSet gpus;
      Time until = kNever;
    };
    std::vector<Stretch> stretches;
    NodeState now;  // What is left of the node for the job.
  };
  /// The first of a class that is not yet in stepped_.
  struct Head {
    Key key;
    std::size_t work = 0;
    Line::Position at;
    std::uint64_t left = 0;  // Members from here on.
    friend bool operator>(const Head& a, const Head& b) { return b.key < a.key; }
  };
  /// A node gets room for more tasks.
  struct Step {
    Time at = kNever;
    std::uint32_t node = 0;  // In nodes_.
    std::size_t group = 0;
    int common = 0;  // ForEachCommon.
    std::int64_t more = 0;
    friend bool operator>(const Step& a, const Step& b) {
      return std::tie(a.at, a.node, a.group, a.common) > std::tie(b.at, b.node, b.group, b.common);
    }
  };

  EndTimes ends(Outcome outcome) const { return {state_.rules, view_.now(), outcome, spread_}; }
  const std::vector<Time>& at(Outcome outcome) const { return at_[static_cast<std::size_t>(outcome)]; }
  std::int64_t UnitsOf(const Shape& shape) const;
  std::int64_t UnitsOf(const Ask& ask) const;
  std::int64_t UnitsLeft(const NodeState& state) const {
    return counts_gpus_ ? state.gpu_free : counts_cpus_ ? state.cpu_free : state.memory_free;
  }
  bool Suits(const Node& node) const;
  void Close(NodeIndex node);
  const NodeState& StateNow(std::size_t node) const;
  NodeState StateBy(Outcome outcome, std::size_t node, Time moment) const;
  /// visit(time, state) after each change before `before`, in order, until it returns true.
  template <typename Visit>
  void ForEachState(Outcome outcome, std::size_t node, Time before, Visit visit) const;
  /// visit(time, units) for what comes free at a time that is known.
  template <typename Visit>
  void ForEachFreed(Outcome outcome, Visit visit) const;
  bool EndsBooking(std::size_t node, Time moment) const;
  bool Holds(const NodeState& state, const Node& node) const;
  Time FitsOnNode(Outcome outcome, std::size_t node, Time before) const;
  Moment FitsOne(Outcome outcome, Time soon) const;
  Moment FitsGang(Outcome outcome) const;
  bool GangFitsBy(Outcome outcome, Time moment) const;
  template <typename Visit>
  void ForEachCommon(const NodeFacts& facts, Visit visit) const;
  void AddSteps(Outcome outcome, std::uint32_t node, std::vector<Step>& steps) const;
  Moment Endless(Outcome outcome) const;
  std::vector<JobId> GoneBy(Outcome outcome, std::size_t node, Time moment) const;
  void GatherWork(const Ahead& ahead);
  double ShareOf(placement::ModelSet models) const;
  void GatherFirst();
  std::vector<Stock::Chunk> Chunks(Outcome outcome) const;
  std::vector<Stock::Chunk> Rounded(Outcome outcome) const;
  std::uint64_t Serve(Outcome outcome, Stock& free, std::vector<Stock>& limits) const;
  bool Takes(const Work& work, Outcome outcome, Stock& free, std::vector<Stock>& limits) const;
  template <typename AmountOf>
  Time Summed(Outcome outcome, Stock stock, std::int64_t own, AmountOf amount_of) const;

  const View& view_;
  const Cluster::State& state_;
  const Ask& ask_;
  std::vector<Ask> alike_;  // With each alternative alone, where tasks have to agree on one.
  const SpreadOf* spread_;
  bool counts_gpus_ = false;
  bool counts_cpus_ = false;
  std::vector<NodeIndex> nodes_;  // That suit it.
  // Of the pieces on nodes_[i], at [first_[i], first_[i + 1]): what they hold, and their ends by outcome. Kept apart
  // from the nodes because every question goes through all of them.
  std::vector<std::size_t> first_;
  std::vector<std::int32_t> units_;
  std::array<std::vector<Time>, 3> at_;
  std::map<std::size_t, Closed> closed_;  // By place in nodes_.
  std::int64_t free_units_ = 0;
  placement::ModelSet kinds_ = 0;
  Limits limits_;
  std::vector<Limits::Use> own_uses_;
  std::vector<Work> works_;
  bool may_be_passed_ = false;
  std::uint64_t members_ = 0;
  std::uint64_t ahead_here_ = 0;        // Of these, those that want something of the nodes,
  std::uint64_t ahead_alike_ = 0;       // and those that a limit of the job itself counts.
  std::vector<std::uint32_t> stepped_;  // The first members of all, in their order: places in works_.
};

}  // namespace divvy::core
