#include "engine/core/explain/explain_reservations.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/core/explain/explain_text.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/models.h"

namespace divvy::core {
namespace {

// Capacity that is kept for one owner on nodes where the job would fit.
struct Kept {
  std::vector<TaskPlacement> placements;  // Kept GPUs that are free, by node; with `is_ahead` those that will be free.
  std::vector<NodeIndex> nodes;
  ReservedCapacity first;  // The one that begins first.
  std::int64_t of = 0;     // GPUs on these nodes that would serve the job: free ones, or all with `is_ahead`.
  bool is_ahead = false;   // Running jobs use the room now, and too little besides this remains once they end.
};

// (job with a backfill reservation, advance reservation); one of the two is set.
using Owner = std::pair<JobId, std::uint64_t>;

GpuSet Fitting(const NodeState& state, const Shape& shape) {
  GpuSet fitting;
  for (int gpu = 0; gpu < state.gpus; ++gpu) {
    const bool has_room = shape.slice || placement::RoomOfGpu(state, gpu).free_parts > 0;
    if (has_room && placement::FitsGpu(state, gpu, shape)) fitting.Insert(gpu);
  }
  return fitting;
}

class ReservationFinder {
 public:
  explicit ReservationFinder(const JobPerspective& perspective)
      : perspective_(perspective),
        state_(perspective.state()),
        request_(perspective.seeker().request),
        shape_(request_.groups.front().alternatives.front()) {}

  std::vector<Blocker> All() {
    Collect();
    CollectAhead();
    std::vector<Blocker> found;
    for (const auto& [owner, kept] : kept_) found.push_back(Describe(owner, kept));
    std::stable_sort(found.begin(), found.end(), [](const Blocker& a, const Blocker& b) {
      return a.holders.front().until < b.holders.front().until;
    });
    return found;
  }

 private:
  void Collect() {
    for (const NodeIndex index : state_.held) {
      const Node& node = state_.nodes[index];
      std::int64_t room = 0;
      for (const TaskGroup& group : request_.groups) room += RoomOf(node.state, group);
      if (room == 0) continue;
      const GpuSet fitting = Fitting(node.state, shape_);
      GpuSet unkept = fitting;
      for (const ReservedCapacity& reserved : node.reserved) {
        if (!perspective_.Binds(reserved)) continue;
        unkept -= reserved.place.gpus;
        Kept& kept = kept_[{reserved.advance == 0 ? reserved.entry : JobId(), reserved.advance}];
        if (kept.nodes.empty() || reserved.from < kept.first.from) kept.first = reserved;
        if (kept.nodes.empty() || kept.nodes.back() != index) {
          kept.nodes.push_back(index);
          kept.of += fitting.size();
        }
        const GpuSet gpus = reserved.place.gpus & fitting;
        if (!gpus.empty()) kept.placements.push_back({index, {gpus}, 0, 0});
      }
      available_ = std::max<std::int64_t>(available_, unkept.size());
    }
  }

  // Collects advance reservations that leave too little room for the job even once all running jobs have ended.
  void CollectAhead() {
    if (state_.advance_reservations.empty()) return;
    std::vector<std::int64_t> rooms(request_.groups.size());
    std::map<Owner, Kept> ahead;
    for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
      const Node& node = state_.nodes[index];
      if (!node.accepts) continue;
      NodeState idle = ClusterState::EmptyState(node.facts);
      placement::Block(idle, node.blocked);
      const GpuSet fitting = Fitting(SeenBy(node.facts, idle, shape_), shape_);
      GpuSet booked;
      for (const ReservedCapacity& reserved : node.reserved) {
        const GpuSet gpus = reserved.place.gpus & fitting;
        if (reserved.advance == 0 || gpus.empty() || !perspective_.Binds(reserved)) continue;
        booked |= gpus;
        Kept& kept = ahead[{JobId(), reserved.advance}];
        if (kept.nodes.empty() || reserved.from < kept.first.from) kept.first = reserved;
        if (kept.nodes.empty() || kept.nodes.back() != index) {
          kept.nodes.push_back(index);
          kept.of += fitting.size();
        }
        kept.placements.push_back({index, {gpus}, 0, 0});
        kept.is_ahead = true;
      }
      placement::Block(idle, booked);
      bool is_enough = true;
      for (std::size_t i = 0; i < rooms.size(); ++i) {
        rooms[i] += RoomOn(node.facts, idle, request_.groups[i]);
        is_enough = is_enough && rooms[i] >= request_.groups[i].least;
      }
      if (is_enough) return;
    }
    kept_.merge(ahead);  // Keeps the entries of owners that already keep free room.
  }

  // "needs 3 GPUs; 2 of the 4 free GPUs (GPUs 0 and 1) are reserved". With `may_move` the GPUs are not named: an
  // advance reservation may move to other GPUs before it begins.
  std::string CountText(const Kept& kept, bool may_move) const {
    std::int64_t gpus = 0;
    for (const TaskPlacement& placed : kept.placements) gpus += placed.place.gpus.size();
    const std::string which = std::string(kept.is_ahead ? " GPU" : " free GPU") + (kept.of == 1 ? "" : "s") +
                              (state_.nodes.size() == 1 ? ""
                               : kept.nodes.size() == 1 ? " of " + state_.nodes[kept.nodes.front()].facts.name
                                                        : " on " + std::to_string(kept.nodes.size()) + " nodes");
    const std::string count = gpus < kept.of ? std::to_string(gpus) + " of the " + std::to_string(kept.of)
                              : gpus == 1    ? "the only"
                                             : "all " + std::to_string(gpus);
    const std::string needs = IsSingle(request_) ? "needs " + GpusOf(shape_) + "; " : "";
    const bool are_named = !may_move && kept.placements.size() == 1 && gpus < kept.of;
    const std::string names = are_named ? " (" + GpusText(kept.placements.front().place.gpus) + ")" : "";
    return needs + count + which + names + " " + std::string(IsOrAre(gpus)) + " reserved";
  }

  std::string WhatText(const Kept& kept) const {
    if (kept.placements.empty()) {
      return "the free resources of " + state_.nodes[kept.nodes.front()].facts.name +
             (kept.nodes.size() > 1 ? " and other nodes" : "") + " are reserved";
    }
    if (kept.placements.size() == 1) {
      const TaskPlacement& placed = kept.placements.front();
      const GpuSet gpus = placed.place.gpus;
      const std::string where = state_.nodes.size() > 1 ? " of " + state_.nodes[placed.node].facts.name : "";
      return GpusText(gpus) + where + " " + std::string(IsOrAre(gpus.size())) + " free, but reserved";
    }
    std::int64_t gpus = 0;
    for (const TaskPlacement& placed : kept.placements) gpus += placed.place.gpus.size();
    return Plural(gpus, "GPU") + " on " + Plural(static_cast<std::int64_t>(kept.nodes.size()), "node") +
           " are free, but reserved";
  }

  std::string PastText() const {
    return perspective_.seeker().key.limit == Duration(0) ? "; without a time limit, this job could run past that"
                                                          : "; this job could run past that";
  }

  std::string ForJobText(JobId job, const ReservedCapacity& reserved) const {
    const std::string text = " for job " + ToString(job);
    if (state_.moving.contains(job)) return text + ", which is moving there";
    if (reserved.is_nomination) return text + ", for which other jobs make room";
    if (reserved.drains) return text + ", which has waited long and gets whatever becomes free";
    return text + ", which is planned to start in " + DurationText(reserved.from - perspective_.now()) + PastText();
  }

  std::string ReservedText(const AdvanceReservation& advance) const {
    const std::string& team = state_.teams.spec(advance.team).name;
    const std::string whose = advance.user ? " for one user" : team.empty() ? " for others" : " for team " + team;
    if (advance.from <= perspective_.now()) {
      const ClassKey& key = perspective_.seeker().key;
      return whose +
             (advance.until == kNever ? "" : " for " + DurationText(advance.until - perspective_.now()) + " more") +
             (IsTheirs(advance, key.team, key.user) ? "; a job of its owner must end by then" : "");
    }
    return whose + " in " + DurationText(advance.from - perspective_.now()) + PastText();
  }

  Blocker Describe(const Owner& owner, const Kept& kept) const {
    Blocker blocker;
    blocker.kind = BlockerKind::kReservation;
    blocker.unit = BlockerUnit::kGpuParts;
    blocker.needed = std::int64_t{shape_.gpus} * placement::kGpuParts;
    blocker.available = available_ * placement::kGpuParts;
    Holder holder{owner.first, kept.placements, kept.first.from, false};
    const AdvanceReservation* advance = AdvanceReservationOf(state_, owner.second);
    const bool is_counted = advance != nullptr && !kept.placements.empty();
    blocker.text = is_counted ? CountText(kept, advance->from > perspective_.now()) : WhatText(kept);
    if (owner.second != 0) {
      if (advance != nullptr) {
        blocker.text += ReservedText(*advance);
        holder.until = advance->until;
      }
      blocker.rule = "reservation " + std::to_string(owner.second);
    } else {
      blocker.text += ForJobText(owner.first, kept.first);
      if (kept.first.drains) holder.until = kNever;
      blocker.rule = "reservation of job " + ToString(owner.first);
    }
    blocker.holders.push_back(std::move(holder));
    return blocker;
  }

  const JobPerspective& perspective_;
  const ClusterState& state_;
  const ResourceRequest& request_;
  const Shape& shape_;
  std::map<Owner, Kept> kept_;
  std::int64_t available_ = 0;  // The most unreserved free GPUs on one node.
};

}  // namespace

std::vector<Blocker> FindReservations(const JobPerspective& perspective) {
  return ReservationFinder(perspective).All();
}

}  // namespace divvy::core
