// Backfill reservations: which job gets one, how changes affect it, and which reservations displace others.
#include <algorithm>
#include <map>
#include <utility>

#include "engine/core/cycle/preempt.h"
#include "engine/core/cycle/scheduling_cycle.h"
#include "engine/core/place/caps.h"
#include "engine/core/place/limit_reservations.h"
#include "engine/core/place/placer.h"
#include "engine/core/place/start_blocker.h"

namespace divvy::core {

bool SchedulingCycle::HasReservation(JobId entry) const {
  return std::any_of(state_.reservations.begin(), state_.reservations.end(),
                     [&](const ReservationSlot& slot) { return slot.reservation.entry == entry; });
}

// Returns true if the limits that jobs of this class need are kept for jobs with reservations. A reservation also keeps
// room in the limits of its job's groups and teams, for the minimum number of GPUs.
bool SchedulingCycle::IsKept(ClassIndex index) {
  if (settled_ == 0) return false;
  const JobClass& job_class = state_.classes[index];
  const ClassKey& key = job_class.key;
  const Time until = key.limit > Duration(0) ? AddSaturating(now_, key.limit) : kNever;
  const ReservationSlot* const end = state_.reservations.data() + settled_;
  const IsBefore is_settled = [&](const ReservationSlot& slot) { return &slot < end; };
  const bool is_of_cap = std::any_of(key.caps.begin(), key.caps.end(), [&](CapIndex cap) {
    if (!state_.caps[cap].is_bound()) return false;
    return Refuses(state_.caps[cap], job_class.least_parts, KeptOfCap(state_, cap, until, is_settled));
  });
  if (is_of_cap || !state_.teams.has_rules()) return is_of_cap;
  const KeptOfTeams kept = KeptByTeam(state_, until, is_settled);
  const bool is_of_team = !TeamsHaveRoom(state_.teams, key.team, job_class.is_firm(), job_class.least_parts, kept);
  if (is_of_team) state_.team_blocked.insert(index);
  return is_of_team;
}

void SchedulingCycle::ReserveFor(ReservationSlot& slot) {
  if (slot.reservation.start > now_ && slot.reservation.start != kNever) {
    PartHolds(slot.job_class, slot.reservation.placements, slot.reservation.start);
  }
  HoldAgain(slot);
}

// Reserves the resources at the places of this reservation again.
void SchedulingCycle::HoldAgain(ReservationSlot& slot) {
  const ClassKey& key = state_.classes[slot.job_class].key;
  for (const TaskPlacement& placed : slot.reservation.placements) {
    ReservedCapacity reserved;
    reserved.entry = slot.reservation.entry;
    reserved.shape = ShapeOf(state_.requests[key.request], placed);
    reserved.place = placed.place;
    reserved.drains = slot.reservation.start == kNever || slot.reservation.is_nomination;
    reserved.is_nomination = slot.reservation.is_nomination;
    reserved.from = reserved.drains ? now_ : slot.reservation.start;
    reserved.is_sure = slot.reservation.is_sure;
    reserved.ends_surely = slot.reservation.is_sure && key.limit > Duration(0);
    const Duration likely = LengthOf(state_.rules, key).likely;
    reserved.until = likely > Duration(0) && !reserved.drains ? AddSaturating(slot.reservation.start, likely) : kNever;
    state_.AddReserved(placed.node, reserved);
  }
  slot.is_lifted = slot.is_lost = false;
}

// The placement may rely on moving another job's reserved capacity to other GPUs of the node; this moves it.
void SchedulingCycle::PartHolds(ClassIndex index, const std::vector<TaskPlacement>& placements, Time at) {
  if (std::all_of(placements.begin(), placements.end(),
                  [&](const TaskPlacement& placed) { return state_.nodes[placed.node].reserved.empty(); })) {
    return;
  }
  const ClassKey& key = state_.classes[index].key;
  std::optional<std::vector<Shift>> shifts;
  {
    Placer placing(state_, now_, at);
    shifts = placing.Shifts(state_.requests[key.request], placements, LengthOf(state_.rules, key), key.team, key.user);
  }
  if (shifts) Apply(state_, *shifts);
}

// Frees the reserved resources of this reservation temporarily. Only jobs before its job may use them, so no node
// counts as having more room.
void SchedulingCycle::Unhold(ReservationSlot& slot) {
  slot.is_lifted = true;
  for (const TaskPlacement& placed : slot.reservation.placements) {
    const bool had_grown = state_.nodes[placed.node].has_grown;
    state_.DropReserved(placed.node, slot.reservation.entry, 0);
    if (had_grown || !state_.nodes[placed.node].has_grown) continue;
    state_.nodes[placed.node].has_grown = false;
    state_.grown.pop_back();
  }
}

// Lifts the reservations from `from` on, which are behind the current job and do not bind it. Nominations are not
// lifted: they bind every job, otherwise the preemption was in vain. Returns whether any was lifted.
bool SchedulingCycle::Lift(std::size_t from) {
  bool has_lifted = false;
  for (std::size_t i = from; i < state_.reservations.size(); ++i) {
    ReservationSlot& slot = state_.reservations[i];
    if (slot.is_lifted || slot.reservation.is_nomination) continue;
    Unhold(slot);
    has_lifted = true;
  }
  return has_lifted;
}

bool SchedulingCycle::IsAnyEscalated(std::size_t from) const {
  return std::any_of(state_.reservations.begin() + static_cast<std::ptrdiff_t>(from), state_.reservations.end(),
                     [&](const ReservationSlot& slot) {
                       return state_.IsEscalatedAt(slot.job_class,
                                                   state_.waiting.at(slot.reservation.entry).place.since, now_);
                     });
}

// Reserves the resources of the lifted reservations again if no other job took them. Otherwise the reservation is made
// again when its job is considered.
void SchedulingCycle::Restore(bool has_changed) {
  for (std::size_t i = settled_; i < state_.reservations.size(); ++i) {
    ReservationSlot& slot = state_.reservations[i];
    if (!slot.is_lifted) continue;
    if (has_changed && Stands(slot)) {
      ReserveFor(slot);
    } else if (has_changed) {
      slot.is_stale = slot.is_lost = true;
    } else if (!slot.is_lost) {
      HoldAgain(slot);
    }
  }
}

void SchedulingCycle::Forget(std::size_t index) {
  state_.DropReservation(index);
  if (index < settled_) settled_ -= 1;
}

// Returns whether an end that the reservation relies on will be later, because a job runs longer than predicted.
bool SchedulingCycle::IsPutOff(const ReservationSlot& slot) const {
  if (slot.reservation.start == kNever || slot.reservation.is_nomination) return false;
  if (!has_overrun_) return false;
  const ResourceRequest& request = state_.requests[state_.classes[slot.job_class].key.request];
  std::map<NodeIndex, NodeState> then;
  return std::any_of(slot.reservation.placements.begin(), slot.reservation.placements.end(),
                     [&](const TaskPlacement& placed) {
                       const auto [at, is_new] = then.try_emplace(placed.node);
                       if (is_new) at->second = StateAt(state_, placed.node, now_, slot.reservation.start);
                       const Shape& shape = ShapeOf(request, placed);
                       if (!FitsOn(at->second, shape, placed.place)) return true;
                       placement::Take(at->second, shape, placed.place);
                       return false;
                     });
}

// Returns whether the reservation is still valid, that is, no job before it took its resources. Call while its
// reserved capacity is lifted.
bool SchedulingCycle::Stands(const ReservationSlot& slot) const {
  if (slot.reservation.is_nomination) return true;
  if (slot.reservation.start <= now_) return false;
  const ClassKey& key = state_.classes[slot.job_class].key;
  if (slot.reservation.start == kNever)
    return DrainStands(state_, state_.requests[key.request], slot.reservation.placements);
  Placer placing(state_, now_, slot.reservation.start);
  return placing.Keeps(state_.requests[key.request], slot.reservation.placements, LengthOf(state_.rules, key), key.team,
                       key.user);
}

// Returns whether its start time has come and exactly its reserved resources are free.
bool SchedulingCycle::IsReady(const ReservationSlot& slot) const {
  if (slot.reservation.start > now_) return false;
  const ClassKey& key = state_.classes[slot.job_class].key;
  Placer placing(state_, now_, now_);
  return placing.Keeps(state_.requests[key.request], slot.reservation.placements, LengthOf(state_.rules, key), key.team,
                       key.user);
}

// Returns true if the reservation's job could now start earlier: a node that has got free room has some for one of its
// tasks.
bool SchedulingCycle::Concerns(const ReservationSlot& slot) const {
  if (slot.reservation.start == kNever) return !grown_.empty();
  const ResourceRequest& request = state_.requests[state_.classes[slot.job_class].key.request];
  return std::any_of(grown_.begin(), grown_.end(), [&](NodeIndex node) {
    const NodeState then = StateAt(state_, node, now_, slot.reservation.start - Duration(1));
    for (const TaskGroup& group : request.groups) {
      for (const Shape& shape : group.alternatives) {
        if (placement::Fits(then, shape)) return true;
      }
    }
    return false;
  });
}

void SchedulingCycle::Settle() {
  ReservationSlot slot = state_.reservations[settled_];
  const Place place = state_.waiting.at(slot.reservation.entry).place;
  const bool is_escalated = state_.IsEscalatedAt(slot.job_class, place.since, now_);
  JobId& first = first_blocked(slot.job_class);
  if (keeps_reservations_) {
    if (!first.is_set()) first = place.id;
    settled_ += 1;
    return;
  }
  // A job for which others are preempted keeps its reservation even while its team's limit blocks it: its victims may
  // count against that limit, too.
  const bool is_nomination = slot.reservation.is_nomination;
  const bool deserves = is_nomination || !first.is_set() || first == place.id || is_escalated;
  const bool is_barred = !is_nomination && IsBarred(slot.job_class);
  const bool is_over = is_nomination
                           ? StartBlockerOf(state_, slot.job_class).could_never_run || !NominationHolds(state_, slot)
                       : is_barred ? !IsBarredUntilItsStart(slot)
                                   : IsKept(slot.job_class);
  if (!deserves || is_over) {
    Forget(settled_);
    // The job has lost its reservation. While it had one, it was not tried, so it is tried now.
    if (!is_over) PushNext(slot.job_class);
    return;
  }
  // A limit blocks the job now, but the running jobs that use the limit will have ended by the reserved start. So the
  // reservation stays.
  if (is_barred) {
    if (slot.is_stale || slot.is_lifted) {
      if (!slot.is_lifted) Unhold(state_.reservations[settled_]);
      if (!Stands(slot)) {
        Forget(settled_);
        return;
      }
      state_.reservations[settled_].is_stale = state_.reservations[settled_].is_lifted = false;
      HoldAgain(state_.reservations[settled_]);
    }
    if (!first.is_set()) first = place.id;
    settled_ += 1;
    return;
  }
  const bool is_broken = slot.is_stale || slot.is_lifted || slot.reservation.start <= now_ || is_nomination;
  if (is_broken || Concerns(slot)) {
    slot.is_stale = is_broken;
    if (!Resettle(slot, place)) return;
  }
  if (!first.is_set()) first = place.id;
  settled_ += 1;
  if (is_escalated) PushBehind(slot.job_class, place);
}

// Returns whether its caps and teams lack room now, but will have it by its start.
bool SchedulingCycle::IsBarredUntilItsStart(const ReservationSlot& slot) const {
  if (slot.reservation.start <= now_ || slot.reservation.start == kNever) return false;
  const JobClass& job_class = state_.classes[slot.job_class];
  const Duration limit = job_class.key.limit;
  const Time until = limit > Duration(0) ? AddSaturating(slot.reservation.start, limit) : kNever;
  const ReservationSlot* const end = state_.reservations.data() + settled_;
  const IsBefore is_settled = [&](const ReservationSlot& one) { return &one < end; };
  return job_class.could_run && HasRightsAt(state_, slot.job_class, slot.reservation.start, until, is_settled);
}

// Checks and renews the reservation of a waiting job, or starts the job. Returns false if the job has started or lost
// its reservation.
bool SchedulingCycle::Resettle(ReservationSlot slot, const Place& place) {
  if (!slot.is_lifted) Unhold(state_.reservations[settled_]);
  // The reservation is first improved with unreserved resources only. Reservations behind it give way if it is lost, or
  // if the job can start at once.
  Outlook outlook = Look(slot);
  if (outlook.placements.empty() && Lift(settled_ + 1)) {
    if (!outlook.is_kept()) {
      outlook = Look(slot);
    } else if (!slot.reservation.is_nomination) {
      outlook.placements = Find(slot.job_class, place.id, slot.is_stale);
    }
  }
  JobId& first = first_blocked(slot.job_class);
  if (!outlook.placements.empty()) {
    Forget(settled_);
    Launch(slot.job_class, place, std::move(outlook.placements));
    Restore(true);
    PushNext(slot.job_class);
    FindHeads();
    return false;
  }
  if (!first.is_set()) first = place.id;
  if (!outlook.reservation) {
    NoteHopeless(slot.job_class, BasisOf(slot.job_class, place.since));
    Forget(settled_);
    Restore(true);
    return false;
  }
  const bool has_changed = outlook.reservation->start != slot.reservation.start ||
                           outlook.reservation->placements != slot.reservation.placements;
  if (has_changed) {
    for (const TaskPlacement& placed : slot.reservation.placements) state_.Grow(placed.node);
    state_.FreshenRights(slot.job_class);
    state_.room_epoch += 1;
  }
  slot.reservation = std::move(*outlook.reservation);
  slot.is_stale = false;
  if (has_changed) ReserveFor(slot);
  else HoldAgain(slot);
  state_.reservations[settled_] = std::move(slot);
  settled_ += 1;
  Restore(has_changed);
  settled_ -= 1;
  return true;
}

// Returns what a job with a reservation gets now: places to start at once, or else the reservation that replaces its
// present one. During the call, the capacity that the job itself has reserved must count as unreserved.
SchedulingCycle::Outlook SchedulingCycle::Look(const ReservationSlot& slot) {
  Outlook outlook;
  const bool is_nomination = slot.reservation.is_nomination;
  if (is_nomination && NominationIsFree(state_, slot)) {
    if (!IsBarred(slot.job_class)) outlook.placements = slot.reservation.placements;
  } else if (!is_nomination || !IsBarred(slot.job_class)) {
    outlook.placements = Find(slot.job_class, slot.reservation.entry, slot.is_stale);
    if (outlook.placements.empty() && IsReady(slot)) outlook.placements = slot.reservation.placements;
  }
  if (!outlook.placements.empty()) return outlook;
  outlook.reservation = Renewed(slot);
  outlook.is_later = outlook.reservation && outlook.reservation->start > slot.reservation.start;
  return outlook;
}

// A valid reservation is never postponed; it may only move to an earlier start.
std::optional<BackfillReservation> SchedulingCycle::Renewed(const ReservationSlot& slot) {
  const JobId entry = slot.reservation.entry;
  const bool stands = !slot.is_stale || Stands(slot);
  if (stands && slot.reservation.is_nomination) return slot.reservation;
  const ReservationBasis basis = BasisOf(slot.job_class, state_.waiting.at(entry).place.since);
  std::optional<BackfillReservation> reservation;
  if (slot.is_stale) {
    reservation = Earliest(state_, slot.job_class, entry, now_, basis);
  } else if (idle_rounds_ < kMostIdleRounds) {
    reservation = EarlierOn(state_, slot.job_class, entry, now_, grown_, slot.reservation.start, basis);
    if (!reservation && slot.reservation.start == kNever && !grown_.empty() && drains_left_ > 0) {
      const ResourceRequest& request = state_.requests[state_.classes[slot.job_class].key.request];
      if (LeastTasks(request) > 1) drains_left_ -= 1;  // For a gang this visits every node.
      reservation = BetterDrain(state_, request, grown_, slot.reservation.placements);
      if (reservation) reservation->entry = entry;
      if (reservation) return reservation;
    }
  }
  if (stands && (!reservation || reservation->start >= slot.reservation.start)) return slot.reservation;
  return reservation;
}

// Records that no reservation was found for a job of this class. All known ends of jobs were considered, so no job with
// the same request can get one until something becomes free unexpectedly, however short it is. Only advance
// reservations make a difference between users.
//
// Where reservations rest on time limits alone, ends without one free something all the time, and most searches fail.
// So they are repeated once a minute.
void SchedulingCycle::NoteHopeless(ClassIndex index, ReservationBasis basis) {
  HopelessSince(index, basis) = HopelessEpoch(basis);
}

bool SchedulingCycle::IsHopeless(ClassIndex index, ReservationBasis basis) {
  return HopelessSince(index, basis) == HopelessEpoch(basis);
}

std::uint64_t SchedulingCycle::HopelessEpoch(ReservationBasis basis) const {
  if (basis != ReservationBasis::kTimeLimits) return state_.room_epoch;
  return static_cast<std::uint64_t>(std::chrono::floor<std::chrono::minutes>(now_.time_since_epoch()).count() + 1);
}

// Returns which facts a reservation of the job may rest on: time limits, predictions, or neither.
ReservationBasis SchedulingCycle::BasisOf(ClassIndex index, Time since) const {
  if (!MayWaitUnsurely(state_, index, since, now_)) return ReservationBasis::kTimeLimits;
  return state_.IsEscalatedAt(index, since, now_) ? ReservationBasis::kDraining : ReservationBasis::kPredictions;
}

std::uint64_t& SchedulingCycle::HopelessSince(ClassIndex index, ReservationBasis basis) {
  JobClass& job_class = state_.classes[index];
  const auto kind = static_cast<std::size_t>(basis);
  if (!state_.advance_reservations.empty()) return job_class.hopeless[kind];
  if (state_.hopeless_requests.size() < state_.requests.size()) state_.hopeless_requests.resize(state_.requests.size());
  return state_.hopeless_requests[job_class.key.request][kind];
}

void SchedulingCycle::Blocked(const Candidate& candidate) {
  const JobClass& job_class = state_.classes[candidate.job_class];
  JobId& first = first_blocked(candidate.job_class);
  if (!first.is_set()) first = candidate.place.id;
  const bool is_first = first == candidate.place.id;
  const bool is_escalated = state_.IsEscalatedAt(candidate.job_class, candidate.place.since, now_);
  if (state_.rules.backfill != Backfill::kReserved || (!is_first && !is_escalated) || keeps_reservations_) return;
  if (HasReservation(candidate.place.id)) return;
  // Only the first jobs in order have reservations.
  const bool is_full = state_.reservations.size() >= kMostReservations && !is_first;
  if (is_full && (settled_ == state_.reservations.size() || state_.reservations.back().reservation.is_nomination))
    return;
  // If no time was found at which a job of this class can start, none is found for the jobs behind it either.
  const ReservationBasis basis = BasisOf(candidate.job_class, candidate.place.since);
  if (IsHopeless(candidate.job_class, basis)) return;
  Lift(settled_);
  std::optional<BackfillReservation> reservation =
      Earliest(state_, candidate.job_class, candidate.place.id, now_, basis);
  if (!reservation) {
    NoteHopeless(candidate.job_class, basis);
    Restore(false);
    return;
  }
  if (is_full) Forget(state_.reservations.size() - 1);
  ReservationSlot slot{std::move(*reservation), candidate.key, candidate.job_class, job_class.wants_gpu};
  ReserveFor(slot);
  state_.reservations.insert(state_.reservations.begin() + static_cast<std::ptrdiff_t>(settled_), std::move(slot));
  settled_ += 1;
  Restore(true);
  if (is_escalated) PushBehind(candidate.job_class, candidate.place);
}

// Adds the next job of the same class if it has waited very long (escalated) as well.
void SchedulingCycle::PushBehind(ClassIndex index, const Place& place) {
  const ClassQueue& queue = state_.classes[index].queue;
  ClassQueue::Position at = queue.LowerBound(place);
  if (!queue.IsEnd(at) && queue.At(at).place == place) at = queue.Next(at);
  if (queue.IsEnd(at) || !state_.IsEscalatedAt(index, queue.At(at).place.since, now_)) return;
  PushBlocked(queue.At(at).place.id);
}

// The job fits only on reserved resources. If every reservation of a job before it can be made on other resources
// without a later start, the reservations are changed. Returns the places that the job then gets.
std::vector<TaskPlacement> SchedulingCycle::MoveReservations(const Candidate& candidate) {
  if (settled_ == 0 || remakes_left_ < static_cast<int>(settled_)) return {};
  const ClassKey& key = state_.classes[candidate.job_class].key;
  const ResourceRequest& request = state_.requests[key.request];
  if (LeastTasks(request) > 1 || request.groups.size() > 1) return {};
  const Shape& shape = request.groups.front().alternatives.front();
  std::vector<NodeIndex> nodes;
  for (const NodeIndex node : state_.held) {
    if (placement::Fits(state_.nodes[node].state, shape)) nodes.push_back(node);
  }
  if (nodes.empty()) return {};
  remakes_left_ -= static_cast<int>(settled_);
  const bool has_lifted = Lift(settled_);
  const std::vector<ReservationSlot> before(state_.reservations.begin(),
                                            state_.reservations.begin() + static_cast<std::ptrdiff_t>(settled_));
  // Reservations without a known start (draining ones and nominations) cannot be compared by their start, so they are
  // not moved.
  const auto has_date = [](const ReservationSlot& slot) {
    return slot.reservation.start != kNever && !slot.reservation.is_nomination;
  };
  const auto lift_settled = [&] {
    for (std::size_t i = 0; i < settled_; ++i) {
      if (has_date(state_.reservations[i])) Unhold(state_.reservations[i]);
    }
  };
  lift_settled();
  std::vector<TaskPlacement> placements;
  {
    Placer placing(state_, now_, now_);
    placing.SetDraw(state_.DrawOf(candidate.place.id));
    placements = placing.Find(request, LengthOf(state_.rules, key), nodes, false, key.team, key.user);
  }
  bool is_fine = !placements.empty();
  if (is_fine) {
    // Simulate that the job runs, with a stand-in placement on the node.
    Node& node = state_.nodes[placements.front().node];
    const Time end = key.limit > Duration(0) ? AddSaturating(now_, key.limit) : kNever;
    node.placements.push_back(
        {candidate.place.id, ShapeOf(request, placements.front()), placements.front().place, now_, end, kNever});
    state_.Rebuild(placements.front().node);
    for (std::size_t i = 0; i < settled_ && is_fine; ++i) {
      ReservationSlot& slot = state_.reservations[i];
      if (!has_date(slot)) continue;
      const Time since = state_.waiting.at(slot.reservation.entry).place.since;
      const ReservationBasis basis = std::min(BasisOf(slot.job_class, since), ReservationBasis::kPredictions);
      std::optional<BackfillReservation> reservation =
          Earliest(state_, slot.job_class, slot.reservation.entry, now_, basis);
      is_fine = reservation && reservation->start <= slot.reservation.start;
      if (!is_fine) break;
      slot.reservation = std::move(*reservation);
      ReserveFor(slot);
    }
    node.placements.pop_back();
    state_.Rebuild(placements.front().node);
  }
  if (is_fine) {
    // The reservations have been changed to other resources. Those that they had before may let other jobs start.
    for (std::size_t i = 0; i < settled_; ++i) {
      if (state_.reservations[i].reservation.placements == before[i].reservation.placements) continue;
      for (const TaskPlacement& placed : before[i].reservation.placements) state_.Grow(placed.node);
      state_.room_epoch += 1;
    }
    return placements;
  }
  lift_settled();
  for (std::size_t i = 0; i < settled_; ++i) {
    if (!has_date(before[i])) continue;
    state_.reservations[i] = before[i];
    HoldAgain(state_.reservations[i]);
  }
  if (has_lifted) Restore(false);
  return {};
}

}  // namespace divvy::core
