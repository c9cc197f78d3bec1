#include "engine/core/cycle/scheduling_cycle.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/result.h"
#include "engine/core/cycle/preempt.h"
#include "engine/core/place/caps.h"
#include "engine/core/place/placer.h"
#include "engine/core/place/start_blocker.h"
#include "engine/core/state/cluster.h"

namespace divvy::core {
namespace {

/// If more nodes changed at once, querying the index for each class is cheaper than visiting each node.
constexpr std::size_t kManyGrown = 48;

/// The assumed length of a filler whose length is unknown.
constexpr Duration kUnknownLength = std::chrono::hours(24);

}  // namespace

SchedulingCycle::SchedulingCycle(ClusterState& state, Time now, const Cluster::NameMember& name, int most_remakes)
    : state_(state), now_(now), name_(name), remakes_left_(most_remakes) {}

Plan SchedulingCycle::Decide() {
  state_.MakeFleet();
  TakeDue();
  if (!state_.moving.empty()) SettleMoves(state_, now_, plan_);
  do {
    Round();
  } while (MustGoOn());
  Preempt(state_, now_, plan_);
  GrowElastic();
  plan_.carvings = std::exchange(state_.carvings, {});
  FindWakeup();
  return std::move(plan_);
}

bool SchedulingCycle::MustGoOn() const {
  // If no job has started for several rounds, ends the cycle: reservations may displace each other in a circle. Nodes
  // that have got free room are examined in the next cycle.
  if (idle_rounds_ >= 2 * kMostIdleRounds) return false;
  if (!state_.grown.empty() || !state_.fresh.empty() || state_.must_find_head) return true;
  // Every start changes the teams' shares, and with them the order.
  return has_started_ && state_.IsAnyFair();
}

void SchedulingCycle::TakeDue() {
  has_overrun_ = state_.PutOffOverdue(now_);
  state_.UpdateAdvanceReservations(now_);
  while (!state_.dated.empty() && state_.dated.begin()->first <= now_) {
    const JobId id = state_.dated.begin()->second;
    state_.dated.erase(state_.dated.begin());
    state_.Enqueue(state_.waiting.at(id));
  }
}

void SchedulingCycle::Push(Candidate candidate) {
  heap_.push_back(std::move(candidate));
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

// Returns the next job to try: the first one of the heap and of the classes in `pool_`.
const SchedulingCycle::Candidate* SchedulingCycle::Next() {
  if (!is_pool_checked_) {
    is_pool_checked_ = true;
    pool_head_.reset();
    std::erase_if(pool_,
                  [&](ClassIndex index) { return !state_.queue_heads[index].is_waiting || !FitsOnGrown(index); });
    const auto first = std::min_element(pool_.begin(), pool_.end(),
                                        [&](ClassIndex a, ClassIndex b) { return state_.keys[a] < state_.keys[b]; });
    if (first != pool_.end()) {
      const JobClass& job_class = state_.classes[*first];
      pool_head_ = {state_.keys[*first], *first, job_class.queue.At(job_class.queue.begin()).place, false, false};
    }
  }
  if (heap_.empty()) return pool_head_ ? &*pool_head_ : nullptr;
  return pool_head_ && Later(heap_.front(), *pool_head_) ? &*pool_head_ : &heap_.front();
}

SchedulingCycle::Candidate SchedulingCycle::Pop() {
  const Candidate* next = Next();
  if (pool_head_ && next == &*pool_head_) {
    Candidate candidate = std::move(*pool_head_);
    std::erase(pool_, candidate.job_class);
    is_pool_checked_ = false;
    pool_head_.reset();
    return candidate;
  }
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  Candidate candidate = std::move(heap_.back());
  heap_.pop_back();
  return candidate;
}

bool SchedulingCycle::IsFiller(const Candidate& candidate) {
  if (candidate.is_blocked || state_.rules.backfill != Backfill::kReserved) return false;
  if (state_.RulesOf(candidate.job_class).order != QueuePolicy::kFifo || !first_blocked(candidate.job_class).is_set())
    return false;
  // If the first blocked job of the pool gets no reservation and does not gain precedence by waiting (escalate), jobs
  // behind it are not tried in the order of gap fillers: they would overtake it.
  const JobId first = first_blocked(candidate.job_class);
  const auto head = state_.waiting.find(first);
  if (head != state_.waiting.end() && state_.RulesOf(head->second.job_class).escalate_after == Duration(0) &&
      !HasReservation(first) && !MayWaitUnsurely(state_, head->second.job_class, head->second.place.since, now_))
    return false;
  return !state_.IsEscalatedAt(candidate.job_class, candidate.place.since, now_) && !HasReservation(candidate.place.id);
}

// Returns true if the jobs that only fill gaps are next: all other jobs of their pool and priority have been
// considered.
bool SchedulingCycle::AreFillersNext(const Candidate* next) const {
  if (fillers_.empty()) return false;
  const auto rank = Filler::RankOf(fillers_.begin()->candidate.key);
  if (next != nullptr && !(rank < Filler::RankOf(next->key))) return false;
  return settled_ == state_.reservations.size() || rank < Filler::RankOf(state_.reservations[settled_].key);
}

void SchedulingCycle::PushFiller(Candidate candidate) {
  const Duration known = LengthOf(state_.rules, state_.classes[candidate.job_class].key).likely;
  const Duration likely = known > Duration(0) ? known : kUnknownLength;
  const double wait = std::chrono::duration<double>(now_ - candidate.place.since).count();
  fillers_.insert({std::move(candidate), wait / std::chrono::duration<double>(likely).count(), likely});
}

void SchedulingCycle::Round() {
  settled_ = 0;  // First, because the candidates must not depend on what the last round settled.
  Collect();
  first_blocked_.assign(state_.heads.size(), JobId());
  has_started_ = false;
  while (true) {
    const Candidate* next = Next();
    const bool has_reservation = settled_ < state_.reservations.size();
    if (AreFillersNext(next)) {
      Try(std::move(fillers_.extract(fillers_.begin()).value().candidate));
    } else if (has_reservation && (next == nullptr || !(next->key < state_.reservations[settled_].key))) {
      reached_ = state_.reservations[settled_].key;
      Settle();
    } else if (next != nullptr) {
      Candidate candidate = Pop();
      if (IsFiller(candidate)) {
        PushFiller(std::move(candidate));
        continue;
      }
      reached_ = candidate.key;
      Try(std::move(candidate));
    } else {
      break;
    }
  }
  state_.heads = first_blocked_;
  idle_rounds_ = has_started_ ? 0 : idle_rounds_ + 1;
}

// Updates the keys of the heads and of the reservations.
void SchedulingCycle::RankHeads() {
  if (!state_.IsAnyFair()) {
    RankDue(RankReservations());
    return;
  }
  // With fair sharing, each start and end of a job changes the queue positions of all jobs of its team, but not their
  // order among each other.
  RankDue({});
  state_.FindTeamHeads(now_);
  const std::vector<KeyChange> key_changes = RankReservations();
  const bool has_moved =
      std::any_of(key_changes.begin(), key_changes.end(), [](const KeyChange& one) { return one.before != one.after; });
  for (ClassIndex index = 0; index < state_.queue_heads.size(); ++index) {
    if (!state_.queue_heads[index].is_waiting) continue;
    Key& key = state_.keys[index];
    const Key before = key;
    if (state_.IsFair(index)) {
      const auto& rank = state_.team_heads[state_.TeamHeadOf(index)].rank;
      const auto of_team = key.rank.begin() + kPoolRanks;
      if (!has_moved && std::equal(rank.begin(), rank.end(), of_team)) continue;
      std::copy(rank.begin(), rank.end(), of_team);
    }
    if (Passes(key_changes, before, key)) state_.Freshen(index);
  }
  state_.must_find_head = true;
}

// Updates the classes whose head changed or has escalated.
void SchedulingCycle::RankDue(const std::vector<KeyChange>& key_changes) {
  if (now_ < state_.next_change) {
    for (const ClassIndex index : std::exchange(state_.stale_heads, {})) {
      const Key before = state_.keys[index];
      state_.HeadChanged(index, now_);
      if (state_.IsFair(index) && state_.keys[index] < before) state_.Freshen(index);
    }
    return;
  }
  state_.next_change = kNever;
  for (ClassIndex index = 0; index < state_.classes.size(); ++index) {
    if (!state_.queue_heads[index].is_waiting) continue;
    const Key before = state_.keys[index];
    const bool is_due = state_.classes[index].head_changes_at <= now_;
    state_.HeadChanged(index, now_);
    const bool is_ahead = state_.IsFair(index) && state_.keys[index] < before;  // Which jobs it overtook is not known
                                                                                // yet.
    if (is_due || is_ahead || Passes(key_changes, before, state_.keys[index])) state_.Freshen(index);
  }
  state_.stale_heads.clear();
}

// Returns true if a job whose queue position changed from `before` to `after` may have overtaken a job with a
// reservation that limited it.
bool SchedulingCycle::Passes(const std::vector<KeyChange>& key_changes, const Key& before, const Key& after) {
  return std::any_of(key_changes.begin(), key_changes.end(),
                     [&](const KeyChange& one) { return one.before < before && !(one.after < after); });
}

// Collects all jobs that may now be able to start.
void SchedulingCycle::Collect() {
  RankHeads();
  state_.round += 1;
  grown_ = std::exchange(state_.grown, {});
  for (const NodeIndex node : grown_) state_.nodes[node].has_grown = false;
  heap_.clear();
  pool_.clear();
  pool_head_.reset();
  fillers_.clear();
  is_pool_checked_ = true;
  const auto add = [&](ClassIndex index) {
    JobClass& job_class = state_.classes[index];
    job_class.looked = state_.round;
    heap_.push_back({state_.keys[index], index, job_class.queue.At(job_class.queue.begin()).place, false, true});
  };
  // Under strict order, jobs behind a blocked job are not examined, so it is unknown whether they are blocked.
  const bool is_strict = state_.rules.backfill == Backfill::kNone;
  const bool is_all = grown_.size() > kManyGrown || is_strict;
  for (const ClassIndex index : std::exchange(state_.fresh, {})) {
    state_.classes[index].is_fresh = false;
    if (state_.queue_heads[index].is_waiting && !is_all) add(index);
  }
  if (is_all) {
    for (ClassIndex index = 0; index < state_.queue_heads.size(); ++index) {
      if (state_.queue_heads[index].is_waiting) add(index);
    }
  } else if (!grown_.empty()) {
    for (ClassIndex index = 0; index < state_.queue_heads.size(); ++index) {
      if (state_.queue_heads[index].is_waiting && FitsOnGrown(index)) pool_.push_back(index);
    }
    is_pool_checked_ = pool_.empty();
  }
  std::make_heap(heap_.begin(), heap_.end(), Later);
  reached_.reset();
  blocked_.clear();
  if (std::exchange(state_.must_find_head, false)) {
    FindHeads();
    return;
  }
  for (const JobId& head : state_.heads) {
    if (head.is_set() && state_.waiting.contains(head)) PushBlocked(head);
  }
}

// Updates the queue positions of jobs with reservations, which change while jobs wait and teams are served. Returns the
// keys before and after.
std::vector<SchedulingCycle::KeyChange> SchedulingCycle::RankReservations() {
  std::vector<KeyChange> keys;
  for (ReservationSlot& slot : state_.reservations) {
    const Place& place = state_.waiting.at(slot.reservation.entry).place;
    const Key before = slot.key;
    slot.key = state_.KeyAt(slot.job_class, place, now_);
    slot.is_stale = slot.is_stale || IsPutOff(slot);
    keys.push_back({before, slot.key});
  }
  const auto before = [](const ReservationSlot& a, const ReservationSlot& b) { return a.key < b.key; };
  if (std::is_sorted(state_.reservations.begin(), state_.reservations.end(), before)) return keys;
  std::sort(state_.reservations.begin(), state_.reservations.end(), before);
  for (ReservationSlot& slot : state_.reservations) slot.is_stale = true;
  return keys;
}

bool SchedulingCycle::FitsOnGrown(ClassIndex index) const {
  const QueueHead& front = state_.queue_heads[index];
  for (const NodeIndex node : grown_) {
    if (placement::Fits(state_.nodes[node].state, front.shape)) return true;
    if (front.is_plain) continue;
    for (const TaskGroup& group : state_.requests[state_.classes[index].key.request].groups) {
      for (const Shape& shape : group.alternatives) {
        if (placement::Fits(state_.nodes[node].state, shape)) return true;
      }
    }
  }
  return false;
}

// Adds a waiting job that cannot start now, because nothing has changed for it, so that it keeps its place in the
// order.
void SchedulingCycle::PushBlocked(JobId entry) {
  const Waiting& waiting = state_.waiting.at(entry);
  if (waiting.lane != Waiting::Lane::kReady || HasReservation(entry)) return;
  const Key key = state_.KeyAt(waiting.job_class, waiting.place, now_);
  if (reached_ && !(*reached_ < key)) return;
  if (blocked_.insert(entry).second) Push({key, waiting.job_class, waiting.place, true, false});
}

// Adds jobs to those that are tried although nothing has changed for them, so that they get a reservation: the first
// job of each type that is not tried in this round, and jobs that have waited very long (escalated).
void SchedulingCycle::FindHeads() {
  if (state_.rules.backfill != Backfill::kReserved) return;
  std::vector<ClassIndex> escalated;
  std::vector<std::optional<ClassIndex>> first(state_.heads.size());
  for (ClassIndex index = 0; index < state_.queue_heads.size(); ++index) {
    const QueueHead& front = state_.queue_heads[index];
    if (!front.is_waiting || state_.classes[index].looked == state_.round) continue;
    const Key& key = state_.keys[index];
    auto& head = first[state_.HeadOf(index)];
    const bool is_escalated = state_.IsEscalatedAt(index, front.since, now_);
    if (!is_escalated && head && state_.keys[*head] < key) continue;
    if ((reached_ && !(*reached_ < key)) || IsBarred(index) || IsKept(index)) continue;
    if (!head || key < state_.keys[*head]) head = index;
    if (is_escalated) escalated.push_back(index);
  }
  const auto before = [&](ClassIndex a, ClassIndex b) { return state_.keys[a] < state_.keys[b]; };
  if (escalated.size() > kMostReservations) {
    std::nth_element(escalated.begin(), escalated.begin() + kMostReservations, escalated.end(), before);
    escalated.resize(kMostReservations);
  }
  const auto entry = [&](ClassIndex index) {
    const ClassQueue& queue = state_.classes[index].queue;
    return queue.At(queue.begin()).place.id;
  };
  for (const auto& head : first) {
    if (head) PushBlocked(entry(*head));
  }
  for (const ClassIndex index : escalated) PushBlocked(entry(index));
}

// Returns true if limits block the jobs of this class even if all resources were free. A class that is blocked by a
// team's limit is tried again when the team uses less.
bool SchedulingCycle::IsBarred(ClassIndex index) {
  const StartBlocker barrier = StartBlockerOf(state_, index);
  if (barrier.over_limit != kRootTeam || barrier.over_quota != kRootTeam) state_.team_blocked.insert(index);
  return barrier.any();
}

std::vector<TaskPlacement> SchedulingCycle::Find(ClassIndex index, JobId entry, bool is_everywhere) {
  const ClassKey& key = state_.classes[index].key;
  const ResourceRequest& request = state_.requests[key.request];
  Placer placing(state_, now_, now_);
  placing.SetDraw(state_.DrawOf(entry));
  const bool is_gang = request.groups.size() > 1 || request.groups.front().least > 1;
  return placing.Find(request, LengthOf(state_.rules, key), grown_, is_everywhere || is_gang, key.team, key.user);
}

// --- Jobs -----------------------------------------------------------------------------------------------------------

void SchedulingCycle::Try(Candidate candidate) {
  JobClass& job_class = state_.classes[candidate.job_class];
  const ClassQueue::Position at = job_class.queue.LowerBound(candidate.place);
  const bool is_there = !job_class.queue.IsEnd(at) && job_class.queue.At(at).place == candidate.place;
  if (candidate.is_blocked) {
    // This job stood for all blocked jobs that are not examined. If it has started or is kept back by a limit, another
    // job takes this role.
    if (is_there && !IsBarred(candidate.job_class) && !IsKept(candidate.job_class)) Blocked(candidate);
    else FindHeads();
    return;
  }
  if (!is_there) return;
  job_class.looked = state_.round;
  if (state_.IsFair(candidate.job_class)) {
    state_.HeadChanged(candidate.job_class, now_);
    const bool is_worse = candidate.key < state_.keys[candidate.job_class];
    candidate.key = state_.keys[candidate.job_class];
    if (is_worse) {
      const Candidate* next = Next();
      const bool has_reservation = settled_ < state_.reservations.size();
      if ((next != nullptr && next->key < candidate.key) ||
          (has_reservation && !(candidate.key < state_.reservations[settled_].key))) {
        Push(std::move(candidate));
        return;
      }
    }
  }
  if (state_.rules.backfill == Backfill::kNone && first_blocked(candidate.job_class).is_set()) return;
  // A job with a reservation has been tried already, together with its reservation.
  if (HasReservation(candidate.place.id) || IsBarred(candidate.job_class)) return;
  if (IsKept(candidate.job_class)) return;
  // The job may use resources that are reserved for jobs behind it. But if some of these jobs have waited very long
  // (escalated), other room is tried first.
  std::vector<TaskPlacement> placements;
  if (IsAnyEscalated(settled_)) placements = Find(candidate.job_class, candidate.place.id, candidate.is_everywhere);
  if (placements.empty()) {
    const bool has_lifted = Lift(settled_);
    placements = Find(candidate.job_class, candidate.place.id, candidate.is_everywhere);
    if (placements.empty() && has_lifted) Restore(false);
  }
  if (placements.empty()) placements = MoveReservations(candidate);
  if (placements.empty()) {
    Blocked(candidate);
    return;
  }
  Launch(candidate.job_class, candidate.place, std::move(placements));
  Restore(true);
  PushNext(candidate.job_class);
}

// Adds the next job of a class whose first job has started to those that are tried.
void SchedulingCycle::PushNext(ClassIndex index) {
  JobClass& job_class = state_.classes[index];
  if (job_class.queue.empty()) return;
  job_class.looked = state_.round;
  Push({state_.keys[index], index, job_class.queue.At(job_class.queue.begin()).place, false, true});
}

void SchedulingCycle::Launch(ClassIndex index, const Place& place, std::vector<TaskPlacement> placements) {
  JobClass& job_class = state_.classes[index];
  const auto at = state_.waiting.find(place.id);
  Waiting& entry = at->second;
  const bool is_array = entry.count > 1 || entry.named > 0;
  Run run;
  run.id = name_ ? name_(place.id) : is_array ? JobId(place.id.value() + 1 + entry.named) : place.id;
  run.job_class = index;
  run.priority = place.priority;
  run.queued_at = place.since;
  run.placements = std::move(placements);
  run.started = now_;
  if (job_class.key.limit > Duration(0)) run.end = AddSaturating(now_, job_class.key.limit);
  if (job_class.key.predicted > Duration(0)) run.predicted_end = AddSaturating(now_, job_class.key.predicted);
  const JobId& first = first_blocked(index);
  Time passed_start = kNoTime;
  for (const ReservationSlot& slot : state_.reservations) {
    if (slot.reservation.entry == first) passed_start = slot.reservation.start;
  }
  plan_.starts.push_back({run.id, place.id, run.placements, first.is_set(), first, passed_start});

  state_.teams.AddWaiting(job_class.key.team, -job_class.least_parts);
  state_.waiting_count -= 1;
  entry.count -= 1;
  entry.named += 1;
  if (entry.count > 0) {
    job_class.queue.SetCount(place, entry.count);
  } else {
    job_class.queue.Erase(place);
    state_.waiting.erase(at);
    state_.draws.erase(place.id);
    if (job_class.queue.empty()) {
      state_.queue_heads[index].is_waiting = false;
      for (const CapIndex cap : job_class.key.caps) state_.caps[cap].classes.erase(index);
    }
  }
  state_.HeadChanged(index, now_);
  has_started_ = true;
  is_pool_checked_ = false;
  for (std::size_t i = 0; i < state_.reservations.size(); ++i) {
    if (state_.reservations[i].reservation.entry != place.id) continue;
    Forget(i);
    break;
  }
  PartHolds(index, run.placements, now_);
  // If the started job uses an advance reservation of its owner, the reservation now keeps less free, so other jobs may
  // get CPUs and memory.
  for (const TaskPlacement& placed : run.placements) {
    const std::vector<ReservedCapacity>& all_reserved = state_.nodes[placed.node].reserved;
    const bool is_reserved =
        std::any_of(all_reserved.begin(), all_reserved.end(), [&](const ReservedCapacity& reserved) {
          return reserved.advance != 0 && reserved.from <= now_ && placement::Overlap(reserved.place, placed.place);
        });
    if (is_reserved) state_.Grow(placed.node);
  }
  state_.AddRun(std::move(run), now_);
  NoteBarred(index);
}

// The started job may have used up a limit that a job with a reservation, or the first blocked job, needs. Then that
// job now waits only for the limit.
void SchedulingCycle::NoteBarred(ClassIndex started) {
  const std::vector<CapIndex>& taken = state_.classes[started].key.caps;
  const auto is_concerned = [&](ClassIndex other) {
    const ClassKey& key = state_.classes[other].key;
    const bool shares_cap = std::any_of(
        taken.begin(), taken.end(), [&](CapIndex cap) { return state_.caps[cap].is_bound() && IsCountedIn(key, cap); });
    const bool shares_team =
        state_.teams.has_rules() && state_.teams.ShareABound(state_.classes[started].key.team, key.team);
    return shares_cap || shares_team || StartBlockerOf(state_, other).any();
  };
  for (const ReservationSlot& slot : state_.reservations) {
    if (!slot.reservation.is_nomination && is_concerned(slot.job_class)) state_.must_find_head = true;
  }
  for (const JobId head : first_blocked_) {
    const auto at = head.is_set() ? state_.waiting.find(head) : state_.waiting.end();
    if (at != state_.waiting.end() && is_concerned(at->second.job_class)) state_.must_find_head = true;
  }
}

void SchedulingCycle::FindWakeup() {
  Time next = state_.dated.empty() ? kNever : state_.dated.begin()->first;
  next = std::min({next, state_.next_change, state_.preempt_again});
  for (const ReservationSlot& slot : state_.reservations) {
    if (slot.reservation.start != kNever)
      next = std::min(next, std::max(slot.reservation.start, now_ + std::chrono::seconds(1)));
  }
  for (const AdvanceReservation& advance : state_.advance_reservations) {
    if (advance.until > now_) next = std::min(next, advance.until);
    if (advance.from > now_) next = std::min(next, advance.from);
  }
  plan_.next_wakeup = next;
}

}  // namespace divvy::core
