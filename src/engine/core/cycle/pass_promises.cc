// Backfill reservations: which job gets one, how changes affect it, and which reservations displace others.
#include <algorithm>
#include <map>
#include <utility>

#include "engine/core/cycle/pass.h"
#include "engine/core/cycle/take_back.h"
#include "engine/core/place/caps.h"
#include "engine/core/place/earliest.h"
#include "engine/core/place/placing.h"
#include "engine/core/place/rights_kept.h"

namespace divvy::core {

bool Pass::IsPromised(JobId entry) const {
  return std::any_of(state_.promises.begin(), state_.promises.end(),
                     [&](const PromiseSlot& slot) { return slot.promise.entry == entry; });
}

// A reserved job also reserves room in its caps and teams for that time, for its minimum number of GPUs.
bool Pass::IsKept(ClassIndex index) {
  if (settled_ == 0) return false;
  const JobClass& job_class = state_.classes[index];
  const ClassKey& key = job_class.key;
  const Time until = key.limit > Duration(0) ? AddSaturating(now_, key.limit) : kNever;
  const PromiseSlot* const end = state_.promises.data() + settled_;
  const IsBefore is_settled = [&](const PromiseSlot& slot) { return &slot < end; };
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

void Pass::HoldFor(PromiseSlot& slot) {
  if (slot.promise.start > now_ && slot.promise.start != kNever) {
    PartHolds(slot.job_class, slot.promise.pieces, slot.promise.start);
  }
  HoldAgain(slot);
}

// Restores the holds at the places of the reservation.
void Pass::HoldAgain(PromiseSlot& slot) {
  const ClassKey& key = state_.classes[slot.job_class].key;
  for (const Piece& piece : slot.promise.pieces) {
    Hold hold;
    hold.entry = slot.promise.entry;
    hold.shape = ShapeOf(state_.asks[key.ask], piece);
    hold.place = piece.place;
    hold.drains = slot.promise.start == kNever || slot.promise.is_claim;
    hold.is_claim = slot.promise.is_claim;
    hold.from = hold.drains ? now_ : slot.promise.start;
    hold.is_sure = slot.promise.is_sure;
    hold.ends_surely = slot.promise.is_sure && key.limit > Duration(0);
    const Duration likely = LengthOf(state_.rules, key).likely;
    hold.until = likely > Duration(0) && !hold.drains ? AddSaturating(slot.promise.start, likely) : kNever;
    state_.AddHold(piece.node, hold);
  }
  slot.is_lifted = slot.is_lost = false;
}

// The placement may rely on moving another job's hold to other GPUs of the node; this moves it.
void Pass::PartHolds(ClassIndex index, const std::vector<Piece>& pieces, Time at) {
  if (std::all_of(pieces.begin(), pieces.end(),
                  [&](const Piece& piece) { return state_.nodes[piece.node].holds.empty(); })) {
    return;
  }
  const ClassKey& key = state_.classes[index].key;
  std::optional<std::vector<Shift>> shifts;
  {
    Placing placing(state_, now_, at);
    shifts = placing.Shifts(state_.asks[key.ask], pieces, LengthOf(state_.rules, key), key.team, key.user);
  }
  if (shifts) Apply(state_, *shifts);
}

// Lifts its holds temporarily. Resources that this frees are available only to jobs before it, so nothing counts as
// grown.
void Pass::Unhold(PromiseSlot& slot) {
  slot.is_lifted = true;
  for (const Piece& piece : slot.promise.pieces) {
    const bool had_grown = state_.nodes[piece.node].has_grown;
    state_.DropHolds(piece.node, slot.promise.entry, 0);
    if (had_grown || !state_.nodes[piece.node].has_grown) continue;
    state_.nodes[piece.node].has_grown = false;
    state_.grown.pop_back();
  }
}

// Lifts the reservations from `from` on, which are behind the current job and do not bind it. Nominations are not
// lifted: they bind every job, otherwise the preemption was in vain. Returns whether any was lifted.
bool Pass::Lift(std::size_t from) {
  bool has_lifted = false;
  for (std::size_t i = from; i < state_.promises.size(); ++i) {
    PromiseSlot& slot = state_.promises[i];
    if (slot.is_lifted || slot.promise.is_claim) continue;
    Unhold(slot);
    has_lifted = true;
  }
  return has_lifted;
}

bool Pass::IsAnyEscalated(std::size_t from) const {
  return std::any_of(
      state_.promises.begin() + static_cast<std::ptrdiff_t>(from), state_.promises.end(), [&](const PromiseSlot& slot) {
        return state_.IsEscalatedAt(slot.job_class, state_.waiting.at(slot.promise.entry).place.since, now_);
      });
}

// Restores lifted holds if no other job took the resources. Otherwise the reservation is resettled at its turn.
void Pass::Restore(bool has_changed) {
  for (std::size_t i = settled_; i < state_.promises.size(); ++i) {
    PromiseSlot& slot = state_.promises[i];
    if (!slot.is_lifted) continue;
    if (has_changed && Stands(slot)) {
      HoldFor(slot);
    } else if (has_changed) {
      slot.is_stale = slot.is_lost = true;
    } else if (!slot.is_lost) {
      HoldAgain(slot);
    }
  }
}

void Pass::Forget(std::size_t index) {
  state_.DropPromise(index);
  if (index < settled_) settled_ -= 1;
}

// Returns whether an end that the reservation relies on will be later, because a job runs longer than predicted.
bool Pass::IsPutOff(const PromiseSlot& slot) const {
  if (slot.promise.start == kNever || slot.promise.is_claim) return false;
  if (!has_overrun_) return false;
  const Ask& ask = state_.asks[state_.classes[slot.job_class].key.ask];
  std::map<NodeIndex, NodeState> then;
  return std::any_of(slot.promise.pieces.begin(), slot.promise.pieces.end(), [&](const Piece& piece) {
    const auto [at, is_new] = then.try_emplace(piece.node);
    if (is_new) at->second = StateAt(state_, piece.node, now_, slot.promise.start);
    const Shape& shape = ShapeOf(ask, piece);
    if (!FitsOn(at->second, shape, piece.place)) return true;
    placement::Take(at->second, shape, piece.place);
    return false;
  });
}

// Returns whether the reservation is still valid, that is, no job before it took its resources. Call while its holds
// are lifted.
bool Pass::Stands(const PromiseSlot& slot) const {
  if (slot.promise.is_claim) return true;
  if (slot.promise.start <= now_) return false;
  const ClassKey& key = state_.classes[slot.job_class].key;
  if (slot.promise.start == kNever) return DrainStands(state_, state_.asks[key.ask], slot.promise.pieces);
  Placing placing(state_, now_, slot.promise.start);
  return placing.Keeps(state_.asks[key.ask], slot.promise.pieces, LengthOf(state_.rules, key), key.team, key.user);
}

// Returns whether its start time has come and exactly its reserved resources are free.
bool Pass::IsReady(const PromiseSlot& slot) const {
  if (slot.promise.start > now_) return false;
  const ClassKey& key = state_.classes[slot.job_class].key;
  Placing placing(state_, now_, now_);
  return placing.Keeps(state_.asks[key.ask], slot.promise.pieces, LengthOf(state_.rules, key), key.team, key.user);
}

// Returns whether a grown node has room for one of its tasks before its start.
bool Pass::Concerns(const PromiseSlot& slot) const {
  if (slot.promise.start == kNever) return !grown_.empty();
  const Ask& ask = state_.asks[state_.classes[slot.job_class].key.ask];
  return std::any_of(grown_.begin(), grown_.end(), [&](NodeIndex node) {
    const NodeState then = StateAt(state_, node, now_, slot.promise.start - Duration(1));
    for (const TaskGroup& group : ask.groups) {
      for (const Shape& shape : group.alternatives) {
        if (placement::Fits(then, shape)) return true;
      }
    }
    return false;
  });
}

void Pass::Settle() {
  PromiseSlot slot = state_.promises[settled_];
  const Place place = state_.waiting.at(slot.promise.entry).place;
  const bool is_escalated = state_.IsEscalatedAt(slot.job_class, place.since, now_);
  JobId& first = first_blocked(slot.job_class);
  if (keeps_promises_) {
    if (!first.is_set()) first = place.id;
    settled_ += 1;
    return;
  }
  // A nominated job waits for its victims, which may also count against its team's limit.
  const bool is_claim = slot.promise.is_claim;
  const bool deserves = is_claim || !first.is_set() || first == place.id || is_escalated;
  const bool is_barred = !is_claim && IsBarred(slot.job_class);
  const bool is_over = is_claim    ? BarrierOf(state_, slot.job_class).could_never_run || !ClaimStands(state_, slot)
                       : is_barred ? !IsBarredUntilItsStart(slot)
                                   : IsKept(slot.job_class);
  if (!deserves || is_over) {
    Forget(settled_);
    // While it had a reservation, the job was not tried.
    if (!is_over) PushNext(slot.job_class);
    return;
  }
  // The jobs that block it will have ended by its start, and it can only wait for them.
  if (is_barred) {
    if (slot.is_stale || slot.is_lifted) {
      if (!slot.is_lifted) Unhold(state_.promises[settled_]);
      if (!Stands(slot)) {
        Forget(settled_);
        return;
      }
      state_.promises[settled_].is_stale = state_.promises[settled_].is_lifted = false;
      HoldAgain(state_.promises[settled_]);
    }
    if (!first.is_set()) first = place.id;
    settled_ += 1;
    return;
  }
  const bool is_broken = slot.is_stale || slot.is_lifted || slot.promise.start <= now_ || is_claim;
  if (is_broken || Concerns(slot)) {
    slot.is_stale = is_broken;
    if (!Resettle(slot, place, is_escalated)) return;
  }
  if (!first.is_set()) first = place.id;
  settled_ += 1;
  if (is_escalated) PushBehind(slot.job_class, place);
}

// Returns whether its caps and teams lack room now, but will have it by its start.
bool Pass::IsBarredUntilItsStart(const PromiseSlot& slot) const {
  if (slot.promise.start <= now_ || slot.promise.start == kNever) return false;
  const JobClass& job_class = state_.classes[slot.job_class];
  const Duration limit = job_class.key.limit;
  const Time until = limit > Duration(0) ? AddSaturating(slot.promise.start, limit) : kNever;
  const PromiseSlot* const end = state_.promises.data() + settled_;
  const IsBefore is_settled = [&](const PromiseSlot& one) { return &one < end; };
  return job_class.could_run && HasRightsAt(state_, slot.job_class, slot.promise.start, until, is_settled);
}

// Returns false if the job has started or lost its reservation.
bool Pass::Resettle(PromiseSlot slot, const Place& place, bool is_escalated) {
  if (!slot.is_lifted) Unhold(state_.promises[settled_]);
  // The reservation is first improved with unreserved resources only. Reservations behind it give way if it is lost, or
  // if the job can start at once.
  Outlook outlook = Look(slot, is_escalated);
  if (outlook.pieces.empty() && Lift(settled_ + 1)) {
    if (!outlook.is_kept()) {
      outlook = Look(slot, is_escalated);
    } else if (!slot.promise.is_claim) {
      outlook.pieces = Find(slot.job_class, place.id, slot.is_stale);
    }
  }
  JobId& first = first_blocked(slot.job_class);
  if (!outlook.pieces.empty()) {
    Forget(settled_);
    Launch(slot.job_class, place, std::move(outlook.pieces));
    Restore(true);
    PushNext(slot.job_class);
    FindHeads();
    return false;
  }
  if (!first.is_set()) first = place.id;
  if (!outlook.promise) {
    NoteHopeless(slot.job_class, is_escalated);
    Forget(settled_);
    Restore(true);
    return false;
  }
  const bool has_changed =
      outlook.promise->start != slot.promise.start || outlook.promise->pieces != slot.promise.pieces;
  if (has_changed) {
    for (const Piece& piece : slot.promise.pieces) state_.Grow(piece.node);
    state_.FreshenRights(slot.job_class);
    state_.room_epoch += 1;
  }
  slot.promise = std::move(*outlook.promise);
  slot.is_stale = false;
  if (has_changed) HoldFor(slot);
  else HoldAgain(slot);
  state_.promises[settled_] = std::move(slot);
  settled_ += 1;
  Restore(has_changed);
  settled_ -= 1;
  return true;
}

// Returns what a reserved job can get now while its own holds are lifted: a start, or its reservation from here on.
Pass::Outlook Pass::Look(const PromiseSlot& slot, bool is_escalated) {
  Outlook outlook;
  const bool is_claim = slot.promise.is_claim;
  if (is_claim && ClaimIsFree(state_, slot)) {
    if (!IsBarred(slot.job_class)) outlook.pieces = slot.promise.pieces;
  } else if (!is_claim || !IsBarred(slot.job_class)) {
    outlook.pieces = Find(slot.job_class, slot.promise.entry, slot.is_stale);
    if (outlook.pieces.empty() && IsReady(slot)) outlook.pieces = slot.promise.pieces;
  }
  if (!outlook.pieces.empty()) return outlook;
  outlook.promise = Renewed(slot, is_escalated);
  outlook.is_later = outlook.promise && outlook.promise->start > slot.promise.start;
  return outlook;
}

// A valid reservation is never postponed; it may only move to an earlier start.
std::optional<Promise> Pass::Renewed(const PromiseSlot& slot, bool is_escalated) {
  const JobId entry = slot.promise.entry;
  const bool stands = !slot.is_stale || Stands(slot);
  if (stands && slot.promise.is_claim) return slot.promise;
  std::optional<Promise> promise;
  if (slot.is_stale) {
    promise = Earliest(state_, slot.job_class, entry, now_, is_escalated);
  } else if (idle_rounds_ < kMostIdleRounds) {
    promise = EarlierOn(state_, slot.job_class, entry, now_, grown_, slot.promise.start);
    if (!promise && slot.promise.start == kNever && !grown_.empty() && drains_left_ > 0) {
      const Ask& ask = state_.asks[state_.classes[slot.job_class].key.ask];
      if (LeastTasks(ask) > 1) drains_left_ -= 1;  // For a gang this visits every node.
      promise = BetterDrain(state_, ask, grown_, slot.promise.pieces);
      if (promise) promise->entry = entry;
      if (promise) return promise;
    }
  }
  if (stands && (!promise || promise->start >= slot.promise.start)) return slot.promise;
  return promise;
}

// No job with the same Ask can get a reservation until something becomes free unexpectedly: all known ends were
// considered, so the job's length does not matter. Bookings make a difference between users.
void Pass::NoteHopeless(ClassIndex index, bool is_escalated) { HopelessSince(index, is_escalated) = state_.room_epoch; }

bool Pass::IsHopeless(ClassIndex index, bool is_escalated) {
  return HopelessSince(index, is_escalated) == state_.room_epoch;
}

std::uint64_t& Pass::HopelessSince(ClassIndex index, bool is_escalated) {
  JobClass& job_class = state_.classes[index];
  const std::size_t kind = is_escalated ? 1 : 0;
  if (!state_.bookings.empty()) return job_class.hopeless[kind];
  if (state_.hopeless_asks.size() < state_.asks.size()) state_.hopeless_asks.resize(state_.asks.size());
  return state_.hopeless_asks[job_class.key.ask][kind];
}

void Pass::Blocked(const Candidate& candidate) {
  const JobClass& job_class = state_.classes[candidate.job_class];
  JobId& first = first_blocked(candidate.job_class);
  if (!first.is_set()) first = candidate.place.id;
  const bool is_first = first == candidate.place.id;
  const bool is_escalated = state_.IsEscalatedAt(candidate.job_class, candidate.place.since, now_);
  if (state_.rules.backfill != Backfill::kReserved || (!is_first && !is_escalated) || keeps_promises_) return;
  if (IsPromised(candidate.place.id)) return;
  // Only the first jobs in order have reservations.
  const bool is_full = state_.promises.size() >= kMostPromises && !is_first;
  if (is_full && (settled_ == state_.promises.size() || state_.promises.back().promise.is_claim)) return;
  // If this job is hopeless, so are those behind it in its class.
  if (IsHopeless(candidate.job_class, is_escalated)) return;
  Lift(settled_);
  std::optional<Promise> promise = Earliest(state_, candidate.job_class, candidate.place.id, now_, is_escalated);
  if (!promise) {
    NoteHopeless(candidate.job_class, is_escalated);
    Restore(false);
    return;
  }
  if (is_full) Forget(state_.promises.size() - 1);
  PromiseSlot slot{std::move(*promise), candidate.key, candidate.job_class, job_class.wants_gpu};
  HoldFor(slot);
  state_.promises.insert(state_.promises.begin() + static_cast<std::ptrdiff_t>(settled_), std::move(slot));
  settled_ += 1;
  Restore(true);
  if (is_escalated) PushBehind(candidate.job_class, candidate.place);
}

// The next job of its class may have escalated as well.
void Pass::PushBehind(ClassIndex index, const Place& place) {
  const Line& line = state_.classes[index].line;
  Line::Position at = line.LowerBound(place);
  if (!line.IsEnd(at) && line.At(at).place == place) at = line.Next(at);
  if (line.IsEnd(at) || !state_.IsEscalatedAt(index, line.At(at).place.since, now_)) return;
  PushBlocked(line.At(at).place.id);
}

// The job fits only on reserved resources. If every reservation before this job can be kept elsewhere with no later
// start, they move.
std::vector<Piece> Pass::MovePromises(const Candidate& candidate) {
  if (settled_ == 0 || remakes_left_ < static_cast<int>(settled_)) return {};
  const ClassKey& key = state_.classes[candidate.job_class].key;
  const Ask& ask = state_.asks[key.ask];
  if (LeastTasks(ask) > 1 || ask.groups.size() > 1) return {};
  const Shape& shape = ask.groups.front().alternatives.front();
  std::vector<NodeIndex> nodes;
  for (const NodeIndex node : state_.held) {
    if (placement::Fits(state_.nodes[node].state, shape)) nodes.push_back(node);
  }
  if (nodes.empty()) return {};
  remakes_left_ -= static_cast<int>(settled_);
  const bool has_lifted = Lift(settled_);
  const std::vector<PromiseSlot> before(state_.promises.begin(),
                                        state_.promises.begin() + static_cast<std::ptrdiff_t>(settled_));
  // Draining reservations and nominations have no start to compare, so their holds stay.
  const auto has_date = [](const PromiseSlot& slot) { return slot.promise.start != kNever && !slot.promise.is_claim; };
  const auto lift_settled = [&] {
    for (std::size_t i = 0; i < settled_; ++i) {
      if (has_date(state_.promises[i])) Unhold(state_.promises[i]);
    }
  };
  lift_settled();
  std::vector<Piece> pieces;
  {
    Placing placing(state_, now_, now_);
    placing.SetDraw(state_.DrawOf(candidate.place.id));
    pieces = placing.Find(ask, LengthOf(state_.rules, key), nodes, false, key.team, key.user);
  }
  bool is_fine = !pieces.empty();
  if (is_fine) {
    // Simulate that the job runs, with a stand-in piece on the node.
    Node& node = state_.nodes[pieces.front().node];
    const Time end = key.limit > Duration(0) ? AddSaturating(now_, key.limit) : kNever;
    node.pieces.push_back({candidate.place.id, ShapeOf(ask, pieces.front()), pieces.front().place, now_, end, kNever});
    state_.Rebuild(pieces.front().node);
    for (std::size_t i = 0; i < settled_ && is_fine; ++i) {
      PromiseSlot& slot = state_.promises[i];
      if (!has_date(slot)) continue;
      std::optional<Promise> promise = Earliest(state_, slot.job_class, slot.promise.entry, now_, false);
      is_fine = promise && promise->start <= slot.promise.start;
      if (!is_fine) break;
      slot.promise = std::move(*promise);
      HoldFor(slot);
    }
    node.pieces.pop_back();
    state_.Rebuild(pieces.front().node);
  }
  if (is_fine) {
    // The resources that they held before may help others.
    for (std::size_t i = 0; i < settled_; ++i) {
      if (state_.promises[i].promise.pieces == before[i].promise.pieces) continue;
      for (const Piece& piece : before[i].promise.pieces) state_.Grow(piece.node);
      state_.room_epoch += 1;
    }
    return pieces;
  }
  lift_settled();
  for (std::size_t i = 0; i < settled_; ++i) {
    if (!has_date(before[i])) continue;
    state_.promises[i] = before[i];
    HoldAgain(state_.promises[i]);
  }
  if (has_lifted) Restore(false);
  return {};
}

}  // namespace divvy::core
