#include "engine/core/cycle/preempt.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/core/cycle/preempt_search.h"
#include "engine/core/place/claims.h"
#include "engine/core/place/limit_reservations.h"
#include "engine/core/place/placer.h"
#include "engine/core/place/start_blocker.h"

namespace divvy::core {
namespace {

struct TakerHead {
  Key key;
  Taker taker;
  static bool Later(const TakerHead& a, const TakerHead& b) { return b.key < a.key; }
};

void Apply(Cluster::State& state, Time now, const TakerHead& head, Seizure seizure, Plan& plan) {
  const JobId entry = head.taker.place.id;
  for (Seizure::Part& part : seizure.parts) {
    Run& run = state.running.at(part.job);
    if (part.is_all) {
      run.is_leaving = true;
    } else {
      run.leaving = part.from;
    }
    state.MarkLeaving(part.job, part.from);
    if (part.to.empty()) {
      plan.preemptions.push_back({part.job, std::move(part.from), part.is_all, entry});
      continue;
    }
    const AskIndex ask = state.classes[run.job_class].key.ask;
    for (const TaskPlacement& piece : part.to) {
      state.AddHold(piece.node, ClaimHold(part.job, ShapeOf(state.asks[ask], piece), piece, now));
    }
    state.moving[part.job] = {ask, part.to, part.is_all};
    plan.moves.push_back({part.job, std::move(part.from), std::move(part.to), entry});
  }
  Claim(state, now, head.key, head.taker.job_class, entry, std::move(seizure.place),
        AddSaturating(now, state.rules.grace));
}

std::optional<Seizure> Look(Cluster::State& state, Time now, const Taker& taker, const std::set<JobId>& started,
                            Time& again_at) {
  const Rules& rules = state.rules;
  Search search(state, now, taker, started);
  std::optional<Seizure> found = search.Nothing();
  const Time patient = AddSaturating(taker.place.since, rules.patience);
  if (!found && patient > now) {
    again_at = patient;
    return found;
  }
  if (!found && rules.consolidates) found = search.Find(TakeMode::kMove, true);
  for (const auto& [is_on, mode] : {std::pair(rules.reclaims && state.teams.has_rules(), TakeMode::kReclaim),
                                    std::pair(rules.preempts, TakeMode::kPreempt)}) {
    if (!is_on || found) continue;
    found = search.Find(mode, true);
    if (!found) found = search.Find(mode, false);
  }
  again_at = search.again_at();
  return found;
}

/// Returns whether preemption could help the job, and start it sooner than its reservation.
bool IsWorthALook(const Cluster::State& state, const Taker& taker, Time now) {
  if (!FitsItsCaps(state, taker.job_class) || StartBlockerOf(state, taker.job_class).could_never_run) return false;
  const ReservationSlot* slot = SlotOf(state, taker.place.id);
  return slot == nullptr || slot->reservation.start > AddSaturating(now, state.rules.grace);
}

}  // namespace

void Cluster::State::MarkLeaving(JobId id, const std::vector<TaskPlacement>& pieces) {
  const Run& run = running.at(id);
  for (const TaskPlacement& piece : pieces) {
    const Shape& shape = ShapeOf(ask_of(run), piece);
    for (RunPiece& one : nodes[piece.node].pieces) {
      if (one.job != id || one.place != piece.place || one.shape != shape || one.is_leaving) continue;
      one.is_leaving = true;
      break;
    }
  }
  leaving.insert(id);
  take_epoch += 1;
}

void Cluster::State::DropMoving(JobId id) {
  const auto at = moving.find(id);
  for (const TaskPlacement& piece : at->second.to) DropHolds(piece.node, id, 0);
  moving.erase(at);
}

// A migrated job is queued again: the resources held for it become its nomination.
void Cluster::State::ResumeMoved(JobId id, Time now) {
  const auto at = moving.find(id);
  const auto entry = waiting.find(id);
  if (at == moving.end()) return;
  const Moving moved = at->second;
  if (entry->second.lane != Waiting::Lane::kReady || classes[entry->second.job_class].key.ask != moved.ask ||
      !moved.is_all) {
    DropMoving(id);
    return;
  }
  moving.erase(at);
  ReservationSlot slot;
  slot.reservation = {id, now, true, true, moved.to};
  slot.job_class = entry->second.job_class;
  slot.wants_gpu = classes[slot.job_class].wants_gpu;
  slot.key = KeyAt(slot.job_class, entry->second.place, now);
  InsertSlot(*this, std::move(slot));
}

void Cluster::SetLeaving(JobId running) {
  Run& run = state_->running.at(running);
  if (run.is_leaving) return;
  run.is_leaving = true;
  state_->MarkLeaving(running, run.pieces);
}

std::vector<Move> Cluster::moving() const {
  std::vector<Move> moves;
  for (const auto& [id, moved] : state_->moving) {
    const Run* run = running(id);
    if (run != nullptr) moves.push_back({id, run->is_leaving ? run->pieces : run->leaving, moved.to, JobId()});
  }
  return moves;
}

namespace {

template <typename StateOf>
bool ClaimFits(const Cluster::State& state, const ReservationSlot& slot, StateOf state_of) {
  const Ask& ask = state.asks[state.classes[slot.job_class].key.ask];
  std::vector<std::pair<NodeIndex, NodeState>> after;
  for (const TaskPlacement& piece : slot.reservation.pieces) {
    auto at = std::find_if(after.begin(), after.end(), [&](const auto& one) { return one.first == piece.node; });
    if (at == after.end()) {
      after.emplace_back(piece.node, state_of(piece.node));
      at = std::prev(after.end());
    }
    const Shape& shape = ShapeOf(ask, piece);
    if (!FitsOn(at->second, shape, piece.place)) return false;
    placement::Take(at->second, shape, piece.place);
  }
  return true;
}

}  // namespace

bool ClaimStands(const Cluster::State& state, const ReservationSlot& slot) {
  return ClaimFits(state, slot, [&](NodeIndex node) { return StateWithoutLeaving(state, node); });
}

bool ClaimIsFree(const Cluster::State& state, const ReservationSlot& slot) {
  return ClaimFits(state, slot, [&](NodeIndex node) { return state.nodes[node].state; });
}

void SettleMoves(Cluster::State& state, Time now, Plan& plan) {
  for (auto at = state.moving.begin(); at != state.moving.end();) {
    const JobId id = at->first;
    const Moving moved = at->second;
    ++at;
    const auto running = state.running.find(id);
    if (running == state.running.end()) {
      if (!state.waiting.contains(id)) state.DropMoving(id);
      continue;
    }
    Run& run = running->second;
    if (run.is_leaving || !run.leaving.empty()) continue;
    state.DropMoving(id);
    Growth growth{id, {}};
    for (const TaskPlacement& piece : moved.to) {
      const Shape& shape = ShapeOf(state.ask_of(run), piece);
      if (!FitsOn(state.nodes[piece.node].state, shape, piece.place)) continue;
      state.TakePiece(id, run, piece);
      run.pieces.push_back(piece);
      state.CountStart(state.classes[run.job_class], UseOf(state.ask_of(run), piece), 0, now);
      growth.pieces.push_back(piece);
    }
    if (!growth.pieces.empty()) plan.growths.push_back(std::move(growth));
  }
}

void TakeBack(Cluster::State& state, Time now, Plan& plan) {
  const Rules& rules = state.rules;
  if (!rules.reclaims && !rules.preempts && !rules.consolidates && state.leaving.empty()) return;
  state.MakeFleet();
  std::vector<TakerHead> heads;
  for (ClassIndex index = 0; index < state.classes.size(); ++index) {
    const JobClass& job_class = state.classes[index];
    if (job_class.line.empty()) continue;
    if (job_class.tried_epoch == state.take_epoch && now < job_class.try_again) continue;
    state.HeadChanged(index, now);
    heads.push_back({state.keys[index], {index, job_class.line.At(job_class.line.begin()).place}});
  }
  std::make_heap(heads.begin(), heads.end(), TakerHead::Later);
  std::vector<ClassIndex> failed;
  std::set<JobId> started;
  for (const Start& start : plan.starts) started.insert(start.job);
  int takers = 0;
  while (!heads.empty() && takers < kMostTakers) {
    std::pop_heap(heads.begin(), heads.end(), TakerHead::Later);
    TakerHead head = std::move(heads.back());
    heads.pop_back();
    JobClass& job_class = state.classes[head.taker.job_class];
    const ReservationSlot* slot = SlotOf(state, head.taker.place.id);
    bool goes_on = slot != nullptr && slot->reservation.is_claim;
    if (!goes_on) {
      job_class.try_again = kNever;
      std::optional<Seizure> seizure;
      if (IsWorthALook(state, head.taker, now)) {
        takers += 1;
        LiftedHolds own(state, head.taker.place.id);
        seizure = Look(state, now, head.taker, started, job_class.try_again);
        if (seizure) own.Forget();
      }
      if (seizure) {
        Apply(state, now, head, std::move(*seizure), plan);
        goes_on = true;
      } else {
        failed.push_back(head.taker.job_class);
      }
    }
    if (!goes_on) continue;
    const ClassQueue::Position next = job_class.line.Next(job_class.line.LowerBound(head.taker.place));
    if (job_class.line.IsEnd(next)) continue;
    head.taker.place = job_class.line.At(next).place;
    head.key = state.KeyAt(head.taker.job_class, head.taker.place, now);
    heads.push_back(std::move(head));
    std::push_heap(heads.begin(), heads.end(), TakerHead::Later);
  }
  // Preemptions made meanwhile can only have made it harder for the jobs that failed before.
  for (const ClassIndex index : failed) state.classes[index].tried_epoch = state.take_epoch;
  state.take_again = kNever;
  for (const JobClass& job_class : state.classes) {
    if (!job_class.line.empty()) state.take_again = std::min(state.take_again, job_class.try_again);
  }
}

}  // namespace divvy::core
