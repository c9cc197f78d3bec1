// The resources that running jobs will release, and when, on the nodes that suit one job. It answers two questions of
// an estimate: from when a node has room for the job, and when the jobs ahead have been served. A job that is served
// uses the nodes, its caps and its team bounds until its expected end.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "engine/core/estimate/end_times.h"
#include "engine/core/estimate/estimate_limits.h"
#include "engine/core/estimate/estimate_stock.h"
#include "engine/core/place/explain_ahead.h"
#include "engine/core/place/job_perspective.h"

namespace divvy::core {

/// Members ahead that are placed one by one; the rest is summed by class.
inline constexpr std::uint64_t kMostStepped = 2'000;
/// The maximum number of running jobs, and of classes, for which spreads are queried. Beyond it the interval rests on
/// time limits alone.
inline constexpr std::size_t kMostAsked = 2'000;

class Supply {
 public:
  /// Collects the resources that running jobs will release on the nodes that suit the job of `perspective`. `spread`:
  /// the distribution of run times; null if it must not be used: then no kEarliest estimate is known.
  Supply(const JobPerspective& perspective, const Ahead& ahead, const SpreadOf* spread);

  struct Moment {
    Time at = kNever;
    std::vector<JobId> waits_for;           // Jobs whose ends decide; at kNever, jobs without a known end.
    std::uint64_t behind = 0;               // Members ahead that it waits for.
    std::uint64_t endless = 0;              // Out of these, members without a known start or end.
    bool ends_advance_reservation = false;  // At that time an advance reservation ends.
    std::string limit;                      // The limit that decides, by the group that it counts; empty if unknown.
  };
  /// Returns when enough running jobs will have ended so that a node, or as many nodes as needed, has room for the job.
  /// Jobs ahead in the queue do not count. If that is no later than `soon`, the result may be any time up to `soon`.
  Moment Fits(Outcome outcome, Time soon) const;
  struct Turn {
    Moment supply;  // When there is enough capacity in total.
    Moment limits;  // When its caps and team bounds allow it.
  };
  /// Returns when all jobs ahead in the queue will have started and there is capacity for this job.
  Turn Served(Outcome outcome) const;
  /// Returns true if this job may start before a job ahead of it that waits only for a limit, and that will need the
  /// same nodes once the limit allows it.
  bool may_be_passed() const { return may_be_passed_; }

 private:
  /// The demand of the jobs of one class that are ahead in the queue: for the nodes in question, and for limits.
  struct Work {
    ClassIndex job_class = 0;
    std::uint64_t members = 0;
    std::int64_t units = 0;                         // Per member; 0: it does not use these nodes.
    std::array<std::optional<Duration>, 3> length;  // By outcome; nothing: unknown.
    std::uint64_t stepped = 0;                      // Members that are in stepped_.
    std::uint64_t reserved_starts = 0;              // Members that have a reservation.
    std::vector<Limits::Use> uses;
    bool is_bound_apart = false;  // Under a limit that does not bind the job itself, so others may pass it.
  };
  /// Resources of one node that advance reservations deny to the job, each until the advance reservation is over.
  /// Includes an advance reservation in the future that the job would run into.
  struct Closed {
    struct Stretch {
      GpuSet gpus;
      Time until = kNever;
    };
    std::vector<Stretch> stretches;
    NodeState now;  // The room of the node that remains for the job.
  };
  /// The first entry of a class that is not yet in stepped_.
  struct Head {
    Key key;
    std::size_t work = 0;
    ClassQueue::Position at;
    std::uint64_t left = 0;  // Members from here on.
    friend bool operator>(const Head& a, const Head& b) { return b.key < a.key; }
  };
  /// A node gets room for more tasks of a group.
  struct Step {
    Time at = kNever;
    std::uint32_t node = 0;  // Index into nodes_.
    std::size_t group = 0;
    int common = 0;  // The number from ForEachCommon.
    std::int64_t more = 0;
    friend bool operator>(const Step& a, const Step& b) {
      return std::tie(a.at, a.node, a.group, a.common) > std::tie(b.at, b.node, b.group, b.common);
    }
  };

  EndTimes ends(Outcome outcome) const { return {state_.rules, perspective_.now(), outcome, spread_}; }
  const std::vector<Time>& at(Outcome outcome) const { return at_[static_cast<std::size_t>(outcome)]; }
  std::int64_t UnitsOf(const Shape& shape) const;
  std::int64_t UnitsOf(const ResourceRequest& request) const;
  std::int64_t UnitsLeft(const NodeState& state) const {
    return counts_gpus_ ? state.gpu_free : counts_cpus_ ? state.cpu_free : state.memory_free;
  }
  // Whether the node suits some group of the ResourceRequest.
  bool Suits(const Node& node) const;
  void Close(NodeIndex node);
  const NodeState& StateNow(std::size_t node) const;
  NodeState StateBy(Outcome outcome, std::size_t node, Time moment) const;
  /// Calls visit(time, state) for each time before `before` at which the free room of the node changes, in order, until
  /// `visit` returns true.
  template <typename Visit>
  void ForEachState(Outcome outcome, std::size_t node, Time before, Visit visit) const;
  /// Calls visit(time, units) for each amount of GPUs (or CPUs or memory, for jobs without GPUs) that becomes free at a
  /// known time.
  template <typename Visit>
  void ForEachFreed(Outcome outcome, Visit visit) const;
  bool EndsAdvanceReservation(std::size_t node, Time moment) const;
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

  const JobPerspective& perspective_;
  const ClusterState& state_;
  const ResourceRequest& request_;
  std::vector<ResourceRequest> alike_;  // The ResourceRequest with each alternative alone, if tasks must agree on one.
  const SpreadOf* spread_;
  bool counts_gpus_ = false;
  bool counts_cpus_ = false;
  std::vector<NodeIndex> nodes_;  // Nodes that suit the job.
  // The placements on nodes_[i] are at [first_[i], first_[i + 1]): what they hold, and their ends by outcome. Stored
  // apart from the nodes because every query scans all of them.
  std::vector<std::size_t> first_;
  std::vector<std::int32_t> units_;
  std::array<std::vector<Time>, 3> at_;
  std::map<std::size_t, Closed> closed_;  // Indexed like nodes_.
  std::int64_t free_units_ = 0;
  placement::ModelSet node_classes_ = 0;
  Limits limits_;
  std::vector<Limits::Use> own_uses_;
  std::vector<Work> works_;
  bool may_be_passed_ = false;
  std::uint64_t members_ = 0;
  std::uint64_t ahead_here_ = 0;        // Members ahead that need these nodes.
  std::uint64_t ahead_alike_ = 0;       // Members ahead that count against a limit of the job itself.
  std::vector<std::uint32_t> stepped_;  // The first members of all classes in queue order, as indices into works_.
};

}  // namespace divvy::core
