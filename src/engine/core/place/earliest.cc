#include "engine/core/place/earliest.h"

#include <algorithm>
#include <utility>

#include "engine/core/place/placer.h"
#include "engine/core/state/models.h"

namespace divvy::core {
namespace {

/// If a gang does not fit although there is enough room in total, reserved capacity or its locality prevents it. Later
/// moments then seldom help, and each costs a look at every node with room.
constexpr int kMostMoments = 32;

/// If a reservation must rest on time limits alone, only so many of the next ends are considered, predicted ones
/// included. Such searches often fail.
constexpr int kMostSureMoments = 64;

/// If at most so many GPUs suit a job, or it needs half of them, it reserves without time limits. Otherwise it would
/// hardly ever find enough free at once.
constexpr std::int64_t kFewGpus = 64;

struct End {
  Time at;
  JobId job;
};

// Known and predicted ends, in order. Requires: none is overdue (ClusterState::PutOffOverdue).
class Ends {
 public:
  explicit Ends(const ClusterState& state) : state_(state), next_(state.ends.begin()) {}

  std::optional<End> Next() {
    if (next_ == state_.ends.end()) return std::nullopt;
    const End end{next_->first, next_->second};
    ++next_;
    return end;
  }

 private:
  const ClusterState& state_;
  std::set<std::pair<Time, JobId>>::const_iterator next_;
};

// Returns whether the reservation rests on time limits alone.
bool IsSure(const ClusterState& state, const ResourceRequest& request, const BackfillReservation& reservation,
            Time now) {
  for (const TaskPlacement& placed : reservation.placements) {
    const NodeState& left = state.nodes[placed.node].state;
    const Shape& shape = ShapeOf(request, placed);
    // The job also waits for CPUs or memory of the node, which any job there may use, so the ends of all these jobs
    // matter.
    const bool lacks_host = shape.cpu_milli > left.cpu_free || shape.memory_mib > left.memory_free;
    for (const RunningTask& other : state.nodes[placed.node].placements) {
      const bool overlaps = placement::Overlap(other.place, placed.place) || placed.place.gpus.empty() || lacks_host;
      if (overlaps && other.end == kNever && EndOf(state.rules, other, now) <= reservation.start) return false;
    }
    for (const ReservedCapacity& reserved : state.nodes[placed.node].reserved) {
      const bool overlaps = placement::Overlap(reserved.place, placed.place) || placed.place.gpus.empty() || lacks_host;
      if (overlaps && !reserved.ends_surely && reserved.advance == 0 && reserved.until <= reservation.start)
        return false;
    }
  }
  return true;
}

bool Suits(const Node& node, const ResourceRequest& request) {
  if (!node.accepts) return false;
  for (const TaskGroup& group : request.groups) {
    for (const Shape& shape : group.alternatives) {
      if (shape.gpus <= node.facts.gpus && ((shape.models >> node.facts.node_class) & 1) != 0) return true;
    }
  }
  return false;
}

/// While it exists, predicted ends and lengths count as unknown if `is_off`.
class WithoutPredictions {
 public:
  WithoutPredictions(Rules& rules, bool is_off) : rules_(rules), before_(rules.uses_predictions) {
    if (is_off) rules_.uses_predictions = false;
  }
  ~WithoutPredictions() { rules_.uses_predictions = before_; }
  WithoutPredictions(const WithoutPredictions&) = delete;
  WithoutPredictions& operator=(const WithoutPredictions&) = delete;

 private:
  Rules& rules_;
  bool before_;
};

class Search {
 public:
  Search(ClusterState& state, ClassIndex job_class, JobId entry, Time now, ReservationBasis basis)
      : state_(state),
        key_(state.classes[job_class].key),
        request_(state.requests[key_.request]),
        now_(now),
        is_sure_only_(basis == ReservationBasis::kTimeLimits),
        draw_(state.DrawOf(entry)) {}
  /// A search with the same parameters for another ResourceRequest. Requires: `request` outlives it.
  Search(const Search& other, const ResourceRequest& request)
      : state_(other.state_),
        key_(other.key_),
        request_(request),
        now_(other.now_),
        is_sure_only_(other.is_sure_only_),
        draw_(other.draw_) {}

  bool IsSingle() const { return LeastTasks(request_) == 1 && request_.groups.size() == 1; }

  std::optional<BackfillReservation> Single() {
    if (IsHopeless()) return std::nullopt;
    Moments moments(*this);
    for (int considered = 0; moments.Next();) {
      if (is_sure_only_ && ++considered > kMostSureMoments) break;
      if (!Counts(moments)) continue;
      std::vector<NodeIndex> scope = moments.lifted;
      for (const JobId job : moments.ended) {
        for (const TaskPlacement& placed : state_.running.at(job).placements) {
          if (Suits(placed.node)) scope.push_back(placed.node);
        }
      }
      if (auto reservation = At(moments.at, scope)) return reservation;
    }
    return std::nullopt;
  }

  // The earliest start over the alternatives that the tasks must agree on.
  std::optional<BackfillReservation> GangAlike() {
    std::optional<BackfillReservation> best;
    for (std::size_t i = 0; i < request_.groups.front().alternatives.size(); ++i) {
      const ResourceRequest narrow = Narrowed(request_, i);
      Search search(*this, narrow);
      std::optional<BackfillReservation> reservation = search.Gang();
      if (!reservation || (best && best->start <= reservation->start)) continue;
      for (TaskPlacement& placed : reservation->placements) placed.alternative = static_cast<std::uint8_t>(i);
      best = std::move(reservation);
    }
    return best;
  }

  std::optional<BackfillReservation> Gang() {
    if (IsHopeless()) return std::nullopt;
    if (TakesOneAlternative(request_)) return GangAlike();
    std::vector<int> room(state_.nodes.size());
    std::map<std::pair<NodeIndex, int>, int> mixed_room;  // For mixed nodes, by model.
    std::map<int, std::int64_t> sums;                     // Indexed by model.
    // The group of which the most tasks must have room: for uneven nodes, the one with the smallest tasks.
    std::size_t smallest = 0;
    for (std::size_t i = 1; i < request_.groups.size() && !IsHeterogeneous(request_); ++i) {
      if (LeastWithLarger(request_, i) > request_.groups[i].least) smallest = i;
    }
    const TaskGroup& group = request_.groups[smallest];
    const int least = LeastWithLarger(request_, smallest);
    const bool by_model = RunsOnOneModel(request_) && group.alternatives.front().gpus > 0;
    const auto count = [&](Placer& placing, NodeIndex node) {
      if (!Suits(node)) return;
      const NodeFacts& facts = state_.nodes[node].facts;
      int most = 0;
      ForEachModel(facts, by_model, [&](int model) {
        int now_room = 0;
        for (const Shape& shape : group.alternatives) {
          const std::optional<int> only = by_model ? std::optional(model) : std::nullopt;
          now_room = std::max(now_room, placing.Room(node, shape, static_cast<int>(group.AtMostOnOne(least)), only));
        }
        int& before = facts.gpu_models.empty() ? room[node] : mixed_room[{node, model}];
        sums[model] += now_room - before;
        before = now_room;
        most = std::max(most, now_room);
      });
      room[node] = most;
    };
    {
      Placer placing(state_, now_, now_ + Duration(1));
      for (NodeIndex node = 0; node < state_.nodes.size(); ++node) count(placing, node);
    }
    int tries = 0;
    Moments moments(*this);
    for (int considered = 0; moments.Next();) {
      if (is_sure_only_ && ++considered > kMostSureMoments) break;
      if (!Counts(moments)) continue;
      for (const JobId job : moments.ended) {
        Placer placing(state_, now_, moments.at);
        for (const TaskPlacement& placed : state_.running.at(job).placements) count(placing, placed.node);
      }
      if (std::none_of(sums.begin(), sums.end(), [&](const auto& sum) { return sum.second >= least; })) continue;
      if (auto reservation = At(moments.at, Roomiest(room, least))) return reservation;
      if (++tries == kMostMoments) return std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<BackfillReservation> At(Time moment, const std::vector<NodeIndex>& scope) {
    if (scope.empty()) return std::nullopt;
    Placer placing(state_, now_, moment);
    placing.SetDraw(draw_);
    std::vector<TaskPlacement> placements =
        placing.Find(request_, LengthOf(state_.rules, key_), scope, false, key_.team, key_.user);
    if (placements.empty()) return std::nullopt;
    BackfillReservation reservation;
    reservation.start = moment;
    reservation.placements = std::move(placements);
    reservation.is_sure = IsSure(state_, request_, reservation, now_);
    if (is_sure_only_ && !reservation.is_sure) return std::nullopt;
    return reservation;
  }

 private:
  bool Suits(NodeIndex index) const { return core::Suits(state_.nodes[index], request_); }

  // Times at which reserved capacity becomes free: the reservation ends, or it opens to its owners.
  std::vector<std::pair<Time, NodeIndex>> HoldEnds() const {
    std::vector<std::pair<Time, NodeIndex>> found;
    for (const NodeIndex node : state_.held) {
      if (!Suits(node)) continue;
      for (const ReservedCapacity& reserved : state_.nodes[node].reserved) {
        if (reserved.drains) continue;
        if (reserved.until != kNever && reserved.until > now_) found.emplace_back(reserved.until, node);
        const AdvanceReservation* advance =
            reserved.advance == 0 ? nullptr : AdvanceReservationOf(state_, reserved.advance);
        if (advance != nullptr && reserved.from > now_ && IsTheirs(*advance, key_.team, key_.user)) {
          found.emplace_back(reserved.from, node);
        }
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  /// The times at which a start may become possible, in order.
  class Moments {
   public:
    explicit Moments(const Search& search) : ends_(search.state_), end_(ends_.Next()), hold_ends_(search.HoldEnds()) {}

    bool Next() {
      lifted.clear();
      ended.clear();
      if (!end_ && next_ == hold_ends_.size()) return false;
      at = end_ ? end_->at : kNever;
      if (next_ < hold_ends_.size()) at = std::min(at, hold_ends_[next_].first);
      for (; next_ < hold_ends_.size() && hold_ends_[next_].first == at; ++next_) {
        lifted.push_back(hold_ends_[next_].second);
      }
      for (; end_ && end_->at == at; end_ = ends_.Next()) ended.push_back(end_->job);
      return true;
    }

    Time at = kNever;
    std::vector<NodeIndex> lifted;
    std::vector<JobId> ended;

   private:
    Ends ends_;
    std::optional<End> end_;
    std::vector<std::pair<Time, NodeIndex>> hold_ends_;
    std::size_t next_ = 0;
  };

  // Returns true if no reservation with a sure start can be found: no running job has a time limit, and no advance
  // reservation will end.
  bool IsHopeless() const { return is_sure_only_ && state_.limited_runs == 0 && state_.advance_reservations.empty(); }

  // Returns whether a sure reservation can begin at this moment.
  bool Counts(const Moments& moments) const {
    return !is_sure_only_ || !moments.lifted.empty() ||
           std::any_of(moments.ended.begin(), moments.ended.end(),
                       [&](JobId job) { return state_.running.at(job).end != kNever; });
  }

  // If the tasks must be close together, all nodes with room; otherwise a few times as many as needed.
  std::vector<NodeIndex> Roomiest(const std::vector<int>& room, int tasks) const {
    std::vector<NodeIndex> nodes;
    for (NodeIndex node = 0; node < room.size(); ++node) {
      if (room[node] > 0) nodes.push_back(node);
    }
    const auto most = static_cast<std::size_t>(std::max(4 * tasks, 64));
    if (IsHeterogeneous(request_)) {
      // Other components of the job may be able to use nodes that the first one cannot, so all nodes are considered.
      nodes.clear();
      for (NodeIndex node = 0; node < state_.nodes.size(); ++node) {
        if (Suits(node)) nodes.push_back(node);
      }
      return nodes;
    }
    if (ClosestOf(request_) != Locality::kAnywhere || request_.groups.size() > 1 || nodes.size() <= most) return nodes;
    std::stable_sort(nodes.begin(), nodes.end(), [&](NodeIndex a, NodeIndex b) { return room[a] > room[b]; });
    nodes.resize(most);
    return nodes;
  }

  ClusterState& state_;
  const ClassKey& key_;
  const ResourceRequest& request_;
  Time now_;
  bool is_sure_only_;
  std::uint64_t draw_;
};

}  // namespace

bool MayWaitUnsurely(const ClusterState& state, ClassIndex index, Time since, Time now) {
  const JobClass& job_class = state.classes[index];
  if (!job_class.wants_gpu || now - since >= kWaitsUnsurelyAfter) return true;
  if (state.limited_runs == state.running.size()) return true;
  if (job_class.suits_epoch != state.usable_epoch) {
    job_class.suits_epoch = state.usable_epoch;
    job_class.suiting_parts = 0;
    for (const Node& node : state.nodes) {
      if (Suits(node, state.requests[job_class.key.request]))
        job_class.suiting_parts += std::int64_t{node.facts.gpus - node.blocked.size()} * placement::kGpuParts;
    }
  }
  return job_class.suiting_parts <= kFewGpus * placement::kGpuParts ||
         2 * job_class.least_parts >= job_class.suiting_parts;
}

std::optional<BackfillReservation> Earliest(ClusterState& state, ClassIndex job_class, JobId entry, Time now,
                                            ReservationBasis basis) {
  const WithoutPredictions rules(state.rules, basis == ReservationBasis::kTimeLimits);
  Search search(state, job_class, entry, now, basis);
  std::optional<BackfillReservation> reservation = search.IsSingle() ? search.Single() : search.Gang();
  if (!reservation && basis == ReservationBasis::kDraining)
    reservation = DrainFor(state, state.requests[state.classes[job_class].key.request]);
  if (reservation) reservation->entry = entry;
  return reservation;
}

std::optional<BackfillReservation> EarlierOn(ClusterState& state, ClassIndex job_class, JobId entry, Time now,
                                             const std::vector<NodeIndex>& nodes, Time before, ReservationBasis basis) {
  const WithoutPredictions rules(state.rules, basis == ReservationBasis::kTimeLimits);
  Search search(state, job_class, entry, now, basis);
  std::vector<std::pair<Time, NodeIndex>> moments;
  for (const NodeIndex node : nodes) {
    for (const RunningTask& placed : state.nodes[node].placements) {
      const Time end = EndOf(state.rules, placed, now);
      if (end < before) moments.emplace_back(end, node);
    }
  }
  std::sort(moments.begin(), moments.end());
  for (const auto& [moment, node] : moments) {
    std::optional<BackfillReservation> reservation = search.At(moment, {node});
    if (!reservation) continue;
    reservation->entry = entry;
    return reservation;
  }
  return std::nullopt;
}

bool CouldRun(const ClusterState& state, const ResourceRequest& request) {
  if (TakesOneAlternative(request)) {
    for (std::size_t i = 0; i < request.groups.front().alternatives.size(); ++i) {
      if (CouldRun(state, Narrowed(request, i))) return true;
    }
    return false;
  }
  for (std::size_t index = 0; index < request.groups.size(); ++index) {
    const TaskGroup& group = request.groups[index];
    int left = LeastWithLarger(request, index);
    for (std::size_t i = 0; i < state.nodes.size() && left > 0; ++i) {
      const Node& node = state.nodes[i];
      if (!node.accepts) continue;
      NodeState idle = IdleState(node);
      const int before = left;
      for (const Shape& shape : group.alternatives) {
        if (group.anti_affinity && left < before) break;
        while (left > 0) {
          const std::optional<GpuPlace> gpus = ChooseGpus(state, request, shape, node, idle, 0);
          if (!gpus) break;
          placement::Take(idle, shape, *gpus);
          --left;
          if (group.anti_affinity) break;
        }
      }
    }
    if (left > 0) return false;
  }
  return true;
}

}  // namespace divvy::core
