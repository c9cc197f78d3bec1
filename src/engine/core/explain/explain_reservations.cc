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
  std::vector<TaskPlacement> pieces;  // Kept GPUs that are free, by node; with `is_ahead` those that will be free.
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
  explicit ReservationFinder(const JobPerspective& view)
      : view_(view), state_(view.state()), ask_(view.seeker().ask), shape_(ask_.groups.front().alternatives.front()) {}

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
      for (const TaskGroup& group : ask_.groups) room += RoomOf(node.state, group);
      if (room == 0) continue;
      const GpuSet fitting = Fitting(node.state, shape_);
      GpuSet unkept = fitting;
      for (const ReservedCapacity& hold : node.holds) {
        if (!view_.Binds(hold)) continue;
        unkept -= hold.place.gpus;
        Kept& kept = kept_[{hold.booking == 0 ? hold.entry : JobId(), hold.booking}];
        if (kept.nodes.empty() || hold.from < kept.first.from) kept.first = hold;
        if (kept.nodes.empty() || kept.nodes.back() != index) {
          kept.nodes.push_back(index);
          kept.of += fitting.size();
        }
        const GpuSet gpus = hold.place.gpus & fitting;
        if (!gpus.empty()) kept.pieces.push_back({index, {gpus}, 0, 0});
      }
      available_ = std::max<std::int64_t>(available_, unkept.size());
    }
  }

  // Collects advance reservations that leave too little room for the job even once all running jobs have ended.
  void CollectAhead() {
    if (state_.bookings.empty()) return;
    std::vector<std::int64_t> rooms(ask_.groups.size());
    std::map<Owner, Kept> ahead;
    for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
      const Node& node = state_.nodes[index];
      if (!node.accepts) continue;
      NodeState idle = Cluster::State::EmptyState(node.facts);
      placement::Block(idle, node.blocked);
      const GpuSet fitting = Fitting(SeenBy(node.facts, idle, shape_), shape_);
      GpuSet booked;
      for (const ReservedCapacity& hold : node.holds) {
        const GpuSet gpus = hold.place.gpus & fitting;
        if (hold.booking == 0 || gpus.empty() || !view_.Binds(hold)) continue;
        booked |= gpus;
        Kept& kept = ahead[{JobId(), hold.booking}];
        if (kept.nodes.empty() || hold.from < kept.first.from) kept.first = hold;
        if (kept.nodes.empty() || kept.nodes.back() != index) {
          kept.nodes.push_back(index);
          kept.of += fitting.size();
        }
        kept.pieces.push_back({index, {gpus}, 0, 0});
        kept.is_ahead = true;
      }
      placement::Block(idle, booked);
      bool is_enough = true;
      for (std::size_t i = 0; i < rooms.size(); ++i) {
        rooms[i] += RoomOn(node.facts, idle, ask_.groups[i]);
        is_enough = is_enough && rooms[i] >= ask_.groups[i].least;
      }
      if (is_enough) return;
    }
    kept_.merge(ahead);  // Keeps the entries of owners that already keep free room.
  }

  // "needs 3 GPUs; 2 of the 4 free GPUs (GPUs 0 and 1) are reserved". With `may_move` the GPUs are not named: an
  // advance reservation may move to other GPUs before it begins.
  std::string CountText(const Kept& kept, bool may_move) const {
    std::int64_t gpus = 0;
    for (const TaskPlacement& piece : kept.pieces) gpus += piece.place.gpus.size();
    const std::string which = std::string(kept.is_ahead ? " GPU" : " free GPU") + (kept.of == 1 ? "" : "s") +
                              (state_.nodes.size() == 1 ? ""
                               : kept.nodes.size() == 1 ? " of " + state_.nodes[kept.nodes.front()].facts.name
                                                        : " on " + std::to_string(kept.nodes.size()) + " nodes");
    const std::string count = gpus < kept.of ? std::to_string(gpus) + " of the " + std::to_string(kept.of)
                              : gpus == 1    ? "the only"
                                             : "all " + std::to_string(gpus);
    const std::string needs = IsSingle(ask_) ? "needs " + GpusOf(shape_) + "; " : "";
    const bool are_named = !may_move && kept.pieces.size() == 1 && gpus < kept.of;
    const std::string names = are_named ? " (" + GpusText(kept.pieces.front().place.gpus) + ")" : "";
    return needs + count + which + names + " " + std::string(IsOrAre(gpus)) + " reserved";
  }

  std::string WhatText(const Kept& kept) const {
    if (kept.pieces.empty()) {
      return "the free resources of " + state_.nodes[kept.nodes.front()].facts.name +
             (kept.nodes.size() > 1 ? " and other nodes" : "") + " are reserved";
    }
    if (kept.pieces.size() == 1) {
      const TaskPlacement& piece = kept.pieces.front();
      const GpuSet gpus = piece.place.gpus;
      const std::string where = state_.nodes.size() > 1 ? " of " + state_.nodes[piece.node].facts.name : "";
      return GpusText(gpus) + where + " " + std::string(IsOrAre(gpus.size())) + " free, but reserved";
    }
    std::int64_t gpus = 0;
    for (const TaskPlacement& piece : kept.pieces) gpus += piece.place.gpus.size();
    return Plural(gpus, "GPU") + " on " + Plural(static_cast<std::int64_t>(kept.nodes.size()), "node") +
           " are free, but reserved";
  }

  std::string PastText() const {
    return view_.seeker().key.limit == Duration(0) ? "; without a time limit, this job could run past that"
                                                   : "; this job could run past that";
  }

  std::string ForJobText(JobId job, const ReservedCapacity& hold) const {
    const std::string text = " for job " + ToString(job);
    if (state_.moving.contains(job)) return text + ", which is moving there";
    if (hold.is_claim) return text + ", for which other jobs make room";
    if (hold.drains) return text + ", which has waited long and gets whatever becomes free";
    return text + ", which is planned to start in " + DurationText(hold.from - view_.now()) + PastText();
  }

  std::string BookedText(const AdvanceReservation& booking) const {
    const std::string& team = state_.teams.spec(booking.team).name;
    const std::string whose = booking.user ? " for one user" : team.empty() ? " for others" : " for team " + team;
    if (booking.from <= view_.now()) {
      const ClassKey& key = view_.seeker().key;
      return whose + (booking.until == kNever ? "" : " for " + DurationText(booking.until - view_.now()) + " more") +
             (IsTheirs(booking, key.team, key.user) ? "; a job of its owner must end by then" : "");
    }
    return whose + " in " + DurationText(booking.from - view_.now()) + PastText();
  }

  Blocker Describe(const Owner& owner, const Kept& kept) const {
    Blocker blocker;
    blocker.kind = BlockerKind::kReservation;
    blocker.unit = BlockerUnit::kGpuParts;
    blocker.needed = std::int64_t{shape_.gpus} * placement::kGpuParts;
    blocker.available = available_ * placement::kGpuParts;
    Holder holder{owner.first, kept.pieces, kept.first.from, false};
    const AdvanceReservation* booking = BookingOf(state_, owner.second);
    const bool is_counted = booking != nullptr && !kept.pieces.empty();
    blocker.text = is_counted ? CountText(kept, booking->from > view_.now()) : WhatText(kept);
    if (owner.second != 0) {
      if (booking != nullptr) {
        blocker.text += BookedText(*booking);
        holder.until = booking->until;
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

  const JobPerspective& view_;
  const Cluster::State& state_;
  const Ask& ask_;
  const Shape& shape_;
  std::map<Owner, Kept> kept_;
  std::int64_t available_ = 0;  // The most unreserved free GPUs on one node.
};

}  // namespace

std::vector<Blocker> FindReservations(const JobPerspective& view) { return ReservationFinder(view).All(); }

}  // namespace divvy::core
