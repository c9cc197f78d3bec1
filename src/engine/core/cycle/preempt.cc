#include "engine/core/cycle/preempt.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "engine/core/cycle/preempt_search.h"
#include "engine/core/cycle/waiting_heads.h"
#include "engine/core/place/limit_reservations.h"
#include "engine/core/place/nominations.h"
#include "engine/core/place/placer.h"
#include "engine/core/place/start_blocker.h"
#include "engine/core/state/cluster.h"

namespace divvy::core {
namespace {

void Apply(ClusterState& state, Time now, const WaitingHeads::Head& head, Seizure seizure, Plan& plan) {
  const JobId entry = head.place.id;
  for (Seizure::Part& part : seizure.parts) {
    Run& run = state.running.at(part.job);
    if (part.is_all) {
      run.is_leaving = true;
    } else {
      run.leaving = part.from;
    }
    MarkLeaving(state, part.job, part.from);
    if (part.to.empty()) {
      plan.preemptions.push_back({part.job, std::move(part.from), part.is_all, entry});
      continue;
    }
    const RequestIndex request = state.classes[run.job_class].key.request;
    for (const TaskPlacement& placed : part.to) {
      state.AddReserved(placed.node,
                        NominatedCapacity(part.job, ShapeOf(state.requests[request], placed), placed, now));
    }
    state.moving[part.job] = {request, part.to, part.is_all};
    plan.moves.push_back({part.job, std::move(part.from), std::move(part.to), entry});
  }
  Nominate(state, now, head.key, head.job_class, entry, std::move(seizure.place),
           AddSaturating(now, state.rules.grace));
}

std::optional<Seizure> Look(ClusterState& state, Time now, const Preemptor& preemptor, const std::set<JobId>& started,
                            Time& again_at) {
  const Rules& rules = state.rules;
  Search search(state, now, preemptor, started);
  std::optional<Seizure> found = search.Nothing();
  const Time patient = AddSaturating(preemptor.place.since, rules.wait_before);
  if (!found && patient > now) {
    again_at = patient;
    return found;
  }
  if (!found && rules.consolidates) found = search.Find(PreemptMode::kMove, true);
  for (const auto& [is_on, mode] : {std::pair(rules.reclaims && state.teams.has_rules(), PreemptMode::kReclaim),
                                    std::pair(rules.preempts, PreemptMode::kPreempt)}) {
    if (!is_on || found) continue;
    found = search.Find(mode, true);
    if (!found) found = search.Find(mode, false);
  }
  again_at = search.again_at();
  return found;
}

/// Returns whether preemption could help the job, and start it sooner than its reservation.
bool IsWorthALook(const ClusterState& state, const Preemptor& preemptor, Time now) {
  if (!FitsItsCaps(state, preemptor.job_class) || StartBlockerOf(state, preemptor.job_class).could_never_run)
    return false;
  const ReservationSlot* slot = SlotOf(state, preemptor.place.id);
  return slot == nullptr || slot->reservation.start > AddSaturating(now, state.rules.grace);
}

void DropMoving(ClusterState& state, JobId id) {
  const auto at = state.moving.find(id);
  for (const TaskPlacement& placed : at->second.to) state.DropReserved(placed.node, id, 0);
  state.moving.erase(at);
}

}  // namespace

void MarkLeaving(ClusterState& state, JobId id, const std::vector<TaskPlacement>& placements) {
  const Run& run = state.running.at(id);
  for (const TaskPlacement& placed : placements) {
    const Shape& shape = ShapeOf(state.request_of(run), placed);
    for (RunningTask& one : state.nodes[placed.node].placements) {
      if (one.job != id || one.place != placed.place || one.shape != shape || one.is_leaving) continue;
      one.is_leaving = true;
      break;
    }
  }
  state.leaving.insert(id);
  state.preempt_epoch += 1;
}

void ResumeMoved(ClusterState& state, JobId id, Time now) {
  const auto at = state.moving.find(id);
  const auto entry = state.waiting.find(id);
  if (at == state.moving.end()) return;
  const Moving moved = at->second;
  if (entry->second.lane != Waiting::Lane::kReady ||
      state.classes[entry->second.job_class].key.request != moved.request || !moved.is_all) {
    DropMoving(state, id);
    return;
  }
  state.moving.erase(at);
  ReservationSlot slot;
  slot.reservation = {id, now, true, true, moved.to};
  slot.job_class = entry->second.job_class;
  slot.wants_gpu = state.classes[slot.job_class].wants_gpu;
  slot.key = state.KeyAt(slot.job_class, entry->second.place, now);
  InsertSlot(state, std::move(slot));
}

namespace {

template <typename StateOf>
bool NominationFits(const ClusterState& state, const ReservationSlot& slot, StateOf state_of) {
  const ResourceRequest& request = state.requests[state.classes[slot.job_class].key.request];
  std::vector<std::pair<NodeIndex, NodeState>> after;
  for (const TaskPlacement& placed : slot.reservation.placements) {
    auto at = std::find_if(after.begin(), after.end(), [&](const auto& one) { return one.first == placed.node; });
    if (at == after.end()) {
      after.emplace_back(placed.node, state_of(placed.node));
      at = std::prev(after.end());
    }
    const Shape& shape = ShapeOf(request, placed);
    if (!FitsOn(at->second, shape, placed.place)) return false;
    placement::Take(at->second, shape, placed.place);
  }
  return true;
}

}  // namespace

bool NominationHolds(const ClusterState& state, const ReservationSlot& slot) {
  return NominationFits(state, slot, [&](NodeIndex node) { return StateWithoutLeaving(state, node); });
}

bool NominationIsFree(const ClusterState& state, const ReservationSlot& slot) {
  return NominationFits(state, slot, [&](NodeIndex node) { return state.nodes[node].state; });
}

void SettleMoves(ClusterState& state, Time now, Plan& plan) {
  for (auto at = state.moving.begin(); at != state.moving.end();) {
    const JobId id = at->first;
    const Moving moved = at->second;
    ++at;
    const auto running = state.running.find(id);
    if (running == state.running.end()) {
      if (!state.waiting.contains(id)) DropMoving(state, id);
      continue;
    }
    Run& run = running->second;
    if (run.is_leaving || !run.leaving.empty()) continue;
    DropMoving(state, id);
    Growth growth{id, {}};
    for (const TaskPlacement& placed : moved.to) {
      const Shape& shape = ShapeOf(state.request_of(run), placed);
      if (!FitsOn(state.nodes[placed.node].state, shape, placed.place)) continue;
      state.TakePlacement(id, run, placed);
      run.placements.push_back(placed);
      state.CountStart(state.classes[run.job_class], UseOf(state.request_of(run), placed), 0, now);
      growth.placements.push_back(placed);
    }
    if (!growth.placements.empty()) plan.growths.push_back(std::move(growth));
  }
}

void Preempt(ClusterState& state, Time now, Plan& plan) {
  const Rules& rules = state.rules;
  state.preempt_again = kNever;
  if (!rules.reclaims && !rules.preempts && !rules.consolidates && state.leaving.empty()) return;
  state.MakeFleet();
  WaitingHeads heads(state, now);
  for (ClassIndex index = 0; index < state.classes.size(); ++index) {
    const JobClass& job_class = state.classes[index];
    if (job_class.queue.empty()) continue;
    if (job_class.tried_epoch == state.preempt_epoch && now < job_class.try_again) continue;
    state.HeadChanged(index, now);
    heads.Add(index);
  }
  std::vector<ClassIndex> failed;
  std::set<JobId> started;
  for (const Start& start : plan.starts) started.insert(start.job);
  int preemptors = 0;
  while (!heads.empty() && preemptors < kMostPreemptors) {
    const WaitingHeads::Head head = heads.Take();
    const Preemptor preemptor{head.job_class, head.place};
    JobClass& job_class = state.classes[head.job_class];
    const ReservationSlot* slot = SlotOf(state, head.place.id);
    bool goes_on = slot != nullptr && slot->reservation.is_nomination;
    job_class.try_again = kNever;
    if (!goes_on) {
      std::optional<Seizure> seizure;
      if (IsWorthALook(state, preemptor, now)) {
        preemptors += 1;
        LiftedCapacity own(state, head.place.id);
        seizure = Look(state, now, preemptor, started, job_class.try_again);
        if (seizure) own.Forget();
      }
      if (seizure) {
        Apply(state, now, head, std::move(*seizure), plan);
        goes_on = true;
      } else {
        failed.push_back(head.job_class);
      }
    }
    if (goes_on) heads.AddNext(head);
  }
  // The preemptions made in this cycle can only have made it harder for jobs for which no victims were found before, so
  // these are not tried again.
  for (const ClassIndex index : failed) state.classes[index].tried_epoch = state.preempt_epoch;
  for (const JobClass& job_class : state.classes) {
    if (!job_class.queue.empty()) state.preempt_again = std::min(state.preempt_again, job_class.try_again);
  }
}

}  // namespace divvy::core
