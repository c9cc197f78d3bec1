#include "engine/core/pass.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/result.h"
#include "engine/core/earliest.h"
#include "engine/core/placing.h"
#include "engine/core/take_back.h"

namespace divvy::core {
namespace {

/// With more nodes changed at once it is cheaper to ask the index for each class than to look at each node.
constexpr std::size_t kManyGrown = 48;

}  // namespace

Barrier BarrierOf(const Cluster::State& state, ClassIndex index) {
  const JobClass& job_class = state.classes[index];
  Barrier barrier;
  for (const CapIndex cap : job_class.key.caps) {
    if (state.caps[cap].limit == 0 || state.caps[cap].running < state.caps[cap].limit) continue;
    barrier.cap = cap;
    break;
  }
  if (state.teams.has_rules()) {
    barrier.over_limit = state.teams.OverLimit(job_class.key.team, job_class.least_milli);
    if (job_class.is_firm()) barrier.over_quota = state.teams.OverFirmQuota(job_class.key.team, job_class.least_milli);
  }
  if (job_class.checked_epoch != state.usable_epoch) {
    job_class.could_run = CouldRun(state, state.asks[job_class.key.ask]);
    job_class.checked_epoch = state.usable_epoch;
  }
  barrier.could_never_run = !job_class.could_run;
  return barrier;
}

Pass::Pass(Cluster::State& state, Time now, const Cluster::NameMember& name, int most_moves)
    : state_(state), now_(now), name_(name), moves_left_(most_moves) {}

Plan Pass::Decide() {
  state_.MakeFleet();
  TakeDue();
  if (!state_.moving.empty()) SettleMoves(state_, now_, plan_);
  do {
    Round();
  } while (MustGoOn());
  TakeBack(state_, now_, plan_);
  GrowElastic();
  FindWakeup();
  return std::move(plan_);
}

bool Pass::MustGoOn() const {
  // Holds that make way for each other in a circle start nobody; what has grown is looked at in the next decision.
  if (idle_rounds_ >= 2 * kMostIdleRounds) return false;
  if (!state_.grown.empty() || !state_.fresh.empty() || state_.must_find_head) return true;
  // Shares change with every start, and with them who goes before whom.
  return state_.rules.order == Order::kFair && has_started_;
}

void Pass::TakeDue() {
  state_.TurnBookings(now_);
  while (!state_.dated.empty() && state_.dated.begin()->first <= now_) {
    const JobId id = state_.dated.begin()->second;
    state_.dated.erase(state_.dated.begin());
    state_.LineUp(id, state_.waiting.at(id));
  }
}

void Pass::Push(Candidate candidate) {
  heap_.push_back(std::move(candidate));
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

// Who is looked at next: the best of the heap and of the pool.
const Pass::Candidate* Pass::Next() {
  if (!is_pool_checked_) {
    is_pool_checked_ = true;
    pool_front_.reset();
    std::erase_if(pool_, [&](ClassIndex index) { return !state_.fronts[index].is_waiting || !FitsOnGrown(index); });
    const auto first = std::min_element(pool_.begin(), pool_.end(),
                                        [&](ClassIndex a, ClassIndex b) { return state_.keys[a] < state_.keys[b]; });
    if (first != pool_.end()) {
      const JobClass& job_class = state_.classes[*first];
      pool_front_ = {job_class.head, *first, job_class.line.At(job_class.line.begin()).place, false, false};
    }
  }
  if (heap_.empty()) return pool_front_ ? &*pool_front_ : nullptr;
  return pool_front_ && Later(heap_.front(), *pool_front_) ? &*pool_front_ : &heap_.front();
}

Pass::Candidate Pass::Pop() {
  const Candidate* next = Next();
  if (pool_front_ && next == &*pool_front_) {
    Candidate candidate = std::move(*pool_front_);
    std::erase(pool_, candidate.job_class);
    is_pool_checked_ = false;
    pool_front_.reset();
    return candidate;
  }
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  Candidate candidate = std::move(heap_.back());
  heap_.pop_back();
  return candidate;
}

void Pass::Round() {
  Collect();
  settled_ = lifted_ = 0;
  first_blocked_[0] = first_blocked_[1] = JobId();
  has_started_ = false;
  while (true) {
    const Candidate* next = Next();
    const bool has_promise = settled_ < state_.promises.size();
    if (has_promise && (next == nullptr || !(next->key < state_.promises[settled_].key))) {
      reached_ = state_.promises[settled_].key;
      Settle();
      continue;
    }
    if (next == nullptr) break;
    Candidate candidate = Pop();
    reached_ = candidate.key;
    if (!candidate.is_blocked && has_promise) Lift(settled_);
    Try(std::move(candidate));
  }
  state_.heads[0] = first_blocked_[0];
  state_.heads[1] = first_blocked_[1];
  idle_rounds_ = has_started_ ? 0 : idle_rounds_ + 1;
}

// The keys of the heads and of the promises, as of now.
void Pass::RankHeads() {
  const bool is_fluid = state_.rules.order == Order::kFair;
  if (is_fluid) state_.FindTeamFronts(now_);
  const std::vector<std::pair<Key, Key>> promised = RankPromises();
  if (is_fluid) state_.must_find_head = true;
  if (is_fluid || now_ >= state_.next_change) {
    state_.next_change = kNever;
    for (ClassIndex index = 0; index < state_.classes.size(); ++index) {
      if (!state_.fronts[index].is_waiting) continue;
      const Key before = state_.keys[index];
      const bool is_due = state_.classes[index].head_changes_at <= now_;
      state_.HeadChanged(index, now_);
      // It may have passed somebody whose hold bound it.
      const Key& after = state_.keys[index];
      const bool passes = std::any_of(promised.begin(), promised.end(),
                                      [&](const auto& one) { return one.first < before && !(one.second < after); });
      if (is_due || passes) state_.Freshen(index);
    }
    state_.stale_heads.clear();
    return;
  }
  for (const ClassIndex index : std::exchange(state_.stale_heads, {})) state_.HeadChanged(index, now_);
}

// Everybody who may have become able to start.
void Pass::Collect() {
  RankHeads();
  state_.round += 1;
  grown_ = std::exchange(state_.grown, {});
  for (const NodeIndex node : grown_) state_.nodes[node].has_grown = false;
  heap_.clear();
  pool_.clear();
  pool_front_.reset();
  is_pool_checked_ = true;
  const auto add = [&](ClassIndex index) {
    JobClass& job_class = state_.classes[index];
    job_class.looked = state_.round;
    heap_.push_back({job_class.head, index, job_class.line.At(job_class.line.begin()).place, false, true});
  };
  // In strict order nobody is looked at behind a blocked job, so nobody is known to be blocked either.
  const bool is_strict = state_.rules.backfill == Backfill::kNone;
  const bool is_all = grown_.size() > kManyGrown || is_strict;
  for (const ClassIndex index : std::exchange(state_.fresh, {})) {
    state_.classes[index].is_fresh = false;
    if (state_.fronts[index].is_waiting && !is_all) add(index);
  }
  if (is_all) {
    for (ClassIndex index = 0; index < state_.fronts.size(); ++index) {
      if (state_.fronts[index].is_waiting) add(index);
    }
  } else if (!grown_.empty()) {
    for (ClassIndex index = 0; index < state_.fronts.size(); ++index) {
      if (state_.fronts[index].is_waiting && FitsOnGrown(index)) pool_.push_back(index);
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

// Jobs escalate and teams are served while a promise stands; its place in the order is that of now. Gives back the keys
// before and after.
std::vector<std::pair<Key, Key>> Pass::RankPromises() {
  std::vector<std::pair<Key, Key>> keys;
  for (PromiseSlot& slot : state_.promises) {
    const Place& place = state_.waiting.at(slot.promise.entry).place;
    const Key before = slot.key;
    slot.key = KeyOf(state_.rules, state_.teams, state_.StandingOf(slot.job_class, place), now_);
    slot.is_stale = slot.is_stale || IsPutOff(slot);
    keys.emplace_back(before, slot.key);
  }
  const auto before = [](const PromiseSlot& a, const PromiseSlot& b) { return a.key < b.key; };
  if (std::is_sorted(state_.promises.begin(), state_.promises.end(), before)) return keys;
  std::sort(state_.promises.begin(), state_.promises.end(), before);
  for (PromiseSlot& slot : state_.promises) slot.is_stale = true;
  return keys;
}

bool Pass::FitsOnGrown(ClassIndex index) const {
  const Front& front = state_.fronts[index];
  for (const NodeIndex node : grown_) {
    if (placement::Fits(state_.nodes[node].state, front.shape)) return true;
    if (front.is_plain) continue;
    for (const TaskGroup& group : state_.asks[state_.classes[index].key.ask].groups) {
      for (const Shape& shape : group.alternatives) {
        if (placement::Fits(state_.nodes[node].state, shape)) return true;
      }
    }
  }
  return false;
}

bool Pass::IsPromised(JobId entry) const {
  return std::any_of(state_.promises.begin(), state_.promises.end(),
                     [&](const PromiseSlot& slot) { return slot.promise.entry == entry; });
}

// It waits, and nothing that could let it start has changed; but it has its place in the order.
void Pass::PushBlocked(JobId entry) {
  const Waiting& waiting = state_.waiting.at(entry);
  if (waiting.lane != Waiting::Lane::kReady || IsPromised(entry)) return;
  const Key key = KeyOf(state_.rules, state_.teams, state_.StandingOf(waiting.job_class, waiting.place), now_);
  if (reached_ && !(*reached_ < key)) return;
  if (blocked_.insert(entry).second) Push({key, waiting.job_class, waiting.place, true, false});
}

// The first of each kind among those who are not looked at in this round, and those that have escalated: they are
// promised a start even though nothing changed for them.
void Pass::FindHeads() {
  if (state_.rules.backfill != Backfill::kReserved) return;
  std::vector<ClassIndex> escalated;
  std::optional<ClassIndex> first[2];
  for (ClassIndex index = 0; index < state_.fronts.size(); ++index) {
    const Front& front = state_.fronts[index];
    if (!front.is_waiting || state_.classes[index].looked == state_.round) continue;
    const Key& key = state_.keys[index];
    auto& head = first[front.wants_gpu ? 1 : 0];
    const bool is_escalated = IsEscalated(state_.rules, front.since, now_);
    if (!is_escalated && head && state_.keys[*head] < key) continue;
    if ((reached_ && !(*reached_ < key)) || IsBarred(index) || IsCapPromised(index)) continue;
    if (!head || key < state_.keys[*head]) head = index;
    if (is_escalated) escalated.push_back(index);
  }
  const auto before = [&](ClassIndex a, ClassIndex b) { return state_.keys[a] < state_.keys[b]; };
  if (escalated.size() > kMostPromises) {
    std::nth_element(escalated.begin(), escalated.begin() + kMostPromises, escalated.end(), before);
    escalated.resize(kMostPromises);
  }
  const auto entry = [&](ClassIndex index) {
    const Line& line = state_.classes[index].line;
    return line.At(line.begin()).place.id;
  };
  for (const auto& head : first) {
    if (head) PushBlocked(entry(*head));
  }
  for (const ClassIndex index : escalated) PushBlocked(entry(index));
}

// Whatever is free. Who is refused for a team's sake is looked at again when the team has less.
bool Pass::IsBarred(ClassIndex index) {
  const Barrier barrier = BarrierOf(state_, index);
  if (barrier.over_limit != kRootTeam || barrier.over_quota != kRootTeam) state_.team_blocked.insert(index);
  return barrier.any();
}

// Who is promised a start keeps a place in its caps for that time.
bool Pass::IsCapPromised(ClassIndex index) const {
  const ClassKey& key = state_.classes[index].key;
  if (key.caps.empty() || settled_ == 0) return false;
  const Time until = key.limit > Duration(0) ? AddSaturating(now_, key.limit) : kNever;
  return std::any_of(key.caps.begin(), key.caps.end(), [&](CapIndex cap) {
    int taken = state_.caps[cap].running;
    for (std::size_t i = 0; i < settled_; ++i) {
      const PromiseSlot& slot = state_.promises[i];
      const std::vector<CapIndex>& caps = state_.classes[slot.job_class].key.caps;
      const bool is_dated = slot.promise.start != kNever && !slot.promise.is_claim;
      if (is_dated && slot.promise.start >= until) continue;
      taken += std::binary_search(caps.begin(), caps.end(), cap) ? 1 : 0;
    }
    return state_.caps[cap].limit > 0 && taken >= state_.caps[cap].limit;
  });
}

std::vector<Piece> Pass::Find(ClassIndex index, JobId entry, bool is_everywhere) {
  const ClassKey& key = state_.classes[index].key;
  const Ask& ask = state_.asks[key.ask];
  Placing placing(state_, now_, now_);
  placing.SetDraw(state_.DrawOf(entry));
  const bool is_gang = ask.groups.size() > 1 || ask.groups.front().least > 1;
  return placing.Find(ask, key.limit, grown_, is_everywhere || is_gang, key.team, key.user);
}

// --- Promises
// ---------------------------------------------------------------------------------------------------------

void Pass::HoldFor(PromiseSlot& slot) {
  const ClassKey& key = state_.classes[slot.job_class].key;
  if (slot.promise.start > now_ && slot.promise.start != kNever) {
    PartHolds(slot.job_class, slot.promise.pieces, slot.promise.start);
  }
  for (const Piece& piece : slot.promise.pieces) {
    Hold hold;
    hold.entry = slot.promise.entry;
    hold.shape = ShapeOf(state_.asks[key.ask], piece);
    hold.gpus = piece.gpus;
    hold.drains = slot.promise.start == kNever || slot.promise.is_claim;
    hold.is_claim = slot.promise.is_claim;
    hold.from = hold.drains ? now_ : slot.promise.start;
    hold.until = key.limit > Duration(0) && !hold.drains ? AddSaturating(slot.promise.start, key.limit) : kNever;
    state_.AddHold(piece.node, hold);
  }
}

// What is placed may count on GPUs from which another's hold can still move to others of the node; so that one does.
void Pass::PartHolds(ClassIndex index, const std::vector<Piece>& pieces, Time at) {
  if (std::all_of(pieces.begin(), pieces.end(),
                  [&](const Piece& piece) { return state_.nodes[piece.node].holds.empty(); })) {
    return;
  }
  const ClassKey& key = state_.classes[index].key;
  std::optional<std::vector<Shift>> shifts;
  {
    Placing placing(state_, now_, at);
    shifts = placing.Shifts(state_.asks[key.ask], pieces, key.limit, key.team, key.user);
  }
  if (shifts) Apply(state_, *shifts);
}

// Takes its holds away for a while. What is free meanwhile is free for those before it only, so nothing has grown.
void Pass::Unhold(const PromiseSlot& slot) {
  for (const Piece& piece : slot.promise.pieces) {
    const bool had_grown = state_.nodes[piece.node].has_grown;
    state_.DropHolds(piece.node, slot.promise.entry, 0);
    if (had_grown || !state_.nodes[piece.node].has_grown) continue;
    state_.nodes[piece.node].has_grown = false;
    state_.grown.pop_back();
  }
}

// Promises from here on are behind the job that is looked at next: they do not bind it. What was taken for somebody
// binds everybody: else it was taken for nothing.
void Pass::Lift(std::size_t from) {
  for (lifted_ = std::max(lifted_, from); lifted_ < state_.promises.size(); ++lifted_) {
    if (!state_.promises[lifted_].promise.is_claim) Unhold(state_.promises[lifted_]);
  }
}

void Pass::Forget(std::size_t index) {
  state_.DropPromise(index);
  if (index < settled_) settled_ -= 1;
  if (index < lifted_) lifted_ -= 1;
}

// Some end that it counts on will come later: a job runs longer than was predicted.
bool Pass::IsPutOff(const PromiseSlot& slot) const {
  if (slot.promise.start == kNever || slot.promise.is_claim) return false;
  if (state_.ends.empty() || state_.ends.begin()->first > now_) return false;
  const Ask& ask = state_.asks[state_.classes[slot.job_class].key.ask];
  std::map<NodeIndex, NodeState> then;
  return std::any_of(slot.promise.pieces.begin(), slot.promise.pieces.end(), [&](const Piece& piece) {
    const auto [at, is_new] = then.try_emplace(piece.node);
    if (is_new) at->second = StateAt(state_, piece.node, now_, slot.promise.start);
    const Shape& shape = ShapeOf(ask, piece);
    if (!FitsOn(at->second, shape, piece.gpus)) return true;
    placement::Take(at->second, shape, piece.gpus);
    return false;
  });
}

// After its holds were lifted: nobody before it took what it counts on.
bool Pass::Stands(const PromiseSlot& slot) const {
  if (slot.promise.is_claim) return true;
  if (slot.promise.start <= now_) return false;
  const ClassKey& key = state_.classes[slot.job_class].key;
  if (slot.promise.start == kNever) return DrainStands(state_, state_.asks[key.ask], slot.promise.pieces);
  Placing placing(state_, now_, slot.promise.start);
  return placing.Keeps(state_.asks[key.ask], slot.promise.pieces, key.limit, key.team, key.user);
}

// A grown node has room for a task of it before its time.
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
  const bool is_lifted = settled_ < lifted_;
  PromiseSlot slot = state_.promises[settled_];
  const Place place = state_.waiting.at(slot.promise.entry).place;
  const bool is_escalated = IsEscalated(state_.rules, place.since, now_);
  JobId& first = first_blocked(slot.wants_gpu);
  const bool deserves = slot.promise.is_claim || !first.is_set() || first == place.id || is_escalated;
  // A claim waits for its victims, who may stand in the way of its team's limit as well.
  const bool is_claim = slot.promise.is_claim;
  const bool is_over = is_claim ? BarrierOf(state_, slot.job_class).could_never_run || !ClaimStands(state_, slot)
                                : IsBarred(slot.job_class) || IsCapPromised(slot.job_class);
  if (!deserves || is_over) {
    Forget(settled_);
    return;
  }
  if (slot.is_stale || is_lifted || slot.promise.start <= now_ || Concerns(slot)) {
    // Neither its own holds stand in its way nor those of who comes behind it.
    Lift(settled_);
    if (is_claim) Unhold(slot);
    std::vector<Piece> pieces;
    if (is_claim && ClaimIsFree(state_, slot)) {
      if (!IsBarred(slot.job_class)) pieces = slot.promise.pieces;
    } else if (!is_claim || !IsBarred(slot.job_class)) {
      pieces = Find(slot.job_class, place.id, true);
    }
    if (!pieces.empty()) {
      Forget(settled_);
      Launch(slot.job_class, place, std::move(pieces));
      PushNext(slot.job_class);
      FindHeads();
      return;
    }
    if (!first.is_set()) first = place.id;
    std::optional<Promise> promise = Renewed(slot, is_escalated);
    if (!promise) {
      NoteHopeless(slot.job_class, is_escalated);
      Forget(settled_);
      return;
    }
    if (promise->start != slot.promise.start || promise->pieces != slot.promise.pieces) {
      for (const Piece& piece : slot.promise.pieces) state_.Grow(piece.node);
      state_.room_epoch += 1;
    }
    slot.promise = std::move(*promise);
    slot.is_stale = false;
    HoldFor(slot);
    state_.promises[settled_] = slot;
  }
  if (!first.is_set()) first = place.id;
  settled_ += 1;
  lifted_ = std::max(lifted_, settled_);
  if (is_escalated) PushBehind(slot.job_class, place);
}

// A promise that stands is never put off, and moves only to an earlier start.
std::optional<Promise> Pass::Renewed(const PromiseSlot& slot, bool is_escalated) {
  const JobId entry = slot.promise.entry;
  const bool stands = Stands(slot);
  if (stands && slot.promise.is_claim) return slot.promise;
  std::optional<Promise> promise;
  if (!stands || slot.is_stale) {
    promise = Earliest(state_, slot.job_class, entry, now_, is_escalated);
  } else if (idle_rounds_ < kMostIdleRounds) {
    promise = EarlierOn(state_, slot.job_class, entry, now_, grown_, slot.promise.start);
    if (!promise && slot.promise.start == kNever && !grown_.empty()) {
      const Ask& ask = state_.asks[state_.classes[slot.job_class].key.ask];
      promise = BetterDrain(state_, ask, grown_, slot.promise.pieces);
      if (promise) promise->entry = entry;
      if (promise) return promise;
    }
  }
  if (stands && (!promise || promise->start >= slot.promise.start)) return slot.promise;
  return promise;
}

// To one that waits alike, nobody can promise a start until more becomes free than is known.
void Pass::NoteHopeless(ClassIndex index, bool is_escalated) {
  const Ask& ask = state_.asks[state_.classes[index].key.ask];
  if (LeastTasks(ask) > 1 || ask.groups.size() > 1) return;
  state_.classes[index].hopeless[is_escalated ? 1 : 0] = state_.room_epoch;
}

// --- Jobs
// -------------------------------------------------------------------------------------------------------------

void Pass::Try(Candidate candidate) {
  JobClass& job_class = state_.classes[candidate.job_class];
  const Line::Position at = job_class.line.LowerBound(candidate.place);
  const bool is_there = !job_class.line.IsEnd(at) && job_class.line.At(at).place == candidate.place;
  if (candidate.is_blocked) {
    // Who stood for all that are not looked at has started or may not start now: then another does.
    if (is_there && !IsBarred(candidate.job_class) && !IsCapPromised(candidate.job_class)) Blocked(candidate);
    else FindHeads();
    return;
  }
  if (!is_there) return;
  job_class.looked = state_.round;
  if (state_.rules.order == Order::kFair) {
    state_.HeadChanged(candidate.job_class, now_);
    const bool is_worse = candidate.key < job_class.head;
    candidate.key = job_class.head;
    if (is_worse) {
      const Candidate* next = Next();
      const bool has_promise = settled_ < state_.promises.size();
      if ((next != nullptr && next->key < candidate.key) ||
          (has_promise && !(candidate.key < state_.promises[settled_].key))) {
        Push(std::move(candidate));
        return;
      }
    }
  }
  if (state_.rules.backfill == Backfill::kNone && first_blocked(job_class.wants_gpu).is_set()) return;
  // Settling its promise has tried it, without its own holds in the way.
  if (IsPromised(candidate.place.id) || IsBarred(candidate.job_class)) return;
  if (IsCapPromised(candidate.job_class)) return;
  std::vector<Piece> pieces = Find(candidate.job_class, candidate.place.id, candidate.is_everywhere);
  if (pieces.empty()) pieces = MovePromises(candidate);
  if (pieces.empty()) {
    Blocked(candidate);
    return;
  }
  Launch(candidate.job_class, candidate.place, std::move(pieces));
  PushNext(candidate.job_class);
}

// The next of a class whose head has started.
void Pass::PushNext(ClassIndex index) {
  JobClass& job_class = state_.classes[index];
  if (job_class.line.empty()) return;
  job_class.looked = state_.round;
  Push({job_class.head, index, job_class.line.At(job_class.line.begin()).place, false, true});
}

void Pass::Blocked(const Candidate& candidate) {
  const JobClass& job_class = state_.classes[candidate.job_class];
  JobId& first = first_blocked(job_class.wants_gpu);
  if (!first.is_set()) first = candidate.place.id;
  const bool is_first = first == candidate.place.id;
  const bool is_escalated = IsEscalated(state_.rules, candidate.place.since, now_);
  if (state_.rules.backfill != Backfill::kReserved || (!is_first && !is_escalated)) return;
  if (IsPromised(candidate.place.id)) return;
  // Those of the highest order have the promises.
  const bool is_full = state_.promises.size() >= kMostPromises && !is_first;
  if (is_full && (settled_ == state_.promises.size() || state_.promises.back().promise.is_claim)) return;
  if (job_class.hopeless[is_escalated ? 1 : 0] != state_.room_epoch) {
    Lift(settled_);
    std::optional<Promise> promise = Earliest(state_, candidate.job_class, candidate.place.id, now_, is_escalated);
    if (promise) {
      if (is_full) Forget(state_.promises.size() - 1);
      PromiseSlot slot{std::move(*promise), candidate.key, candidate.job_class, job_class.wants_gpu, false};
      HoldFor(slot);
      state_.promises.insert(state_.promises.begin() + static_cast<std::ptrdiff_t>(settled_), std::move(slot));
      settled_ += 1;
      lifted_ = std::max(lifted_ + 1, settled_);
    } else {
      NoteHopeless(candidate.job_class, is_escalated);
    }
  }
  if (is_escalated) PushBehind(candidate.job_class, candidate.place);
}

// Those behind it in its class may have escalated as well.
void Pass::PushBehind(ClassIndex index, const Place& place) {
  const Line& line = state_.classes[index].line;
  Line::Position at = line.LowerBound(place);
  if (!line.IsEnd(at) && line.At(at).place == place) at = line.Next(at);
  if (line.IsEnd(at) || !IsEscalated(state_.rules, line.At(at).place.since, now_)) return;
  PushBlocked(line.At(at).place.id);
}

// The job fits, but only on what is held. A promise is about a time: if every promise before this job can be kept
// elsewhere no later than it is, they move.
std::vector<Piece> Pass::MovePromises(const Candidate& candidate) {
  if (settled_ == 0 || moves_left_ == 0) return {};
  const ClassKey& key = state_.classes[candidate.job_class].key;
  const Ask& ask = state_.asks[key.ask];
  if (LeastTasks(ask) > 1 || ask.groups.size() > 1) return {};
  const Shape& shape = ask.groups.front().alternatives.front();
  std::vector<NodeIndex> nodes;
  for (const NodeIndex node : state_.held) {
    if (placement::Fits(state_.nodes[node].state, shape)) nodes.push_back(node);
  }
  if (nodes.empty()) return {};
  moves_left_ -= 1;
  Lift(settled_);
  const std::vector<PromiseSlot> before(state_.promises.begin(),
                                        state_.promises.begin() + static_cast<std::ptrdiff_t>(settled_));
  // What drains, or was taken for somebody, has no time to compare: its holds stand as they are.
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
    pieces = placing.Find(ask, key.limit, nodes, false, key.team, key.user);
  }
  bool is_fine = !pieces.empty();
  if (is_fine) {
    // As if it ran: a stand-in piece on the node.
    Node& node = state_.nodes[pieces.front().node];
    const Time end = key.limit > Duration(0) ? AddSaturating(now_, key.limit) : kNever;
    node.pieces.push_back({candidate.place.id, shape, pieces.front().gpus, now_, end, kNever});
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
    // What they held before may help others.
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
    HoldFor(state_.promises[i]);
  }
  return {};
}

void Pass::Launch(ClassIndex index, const Place& place, std::vector<Piece> pieces) {
  JobClass& job_class = state_.classes[index];
  const auto at = state_.waiting.find(place.id);
  Waiting& entry = at->second;
  const bool is_array = entry.count > 1 || entry.named > 0;
  Run run;
  run.id = name_ ? name_(place.id) : is_array ? JobId(place.id.value() + 1 + entry.named) : place.id;
  run.job_class = index;
  run.priority = place.priority;
  run.queued_at = place.since;
  run.pieces = std::move(pieces);
  run.started = now_;
  if (job_class.key.limit > Duration(0)) run.end = AddSaturating(now_, job_class.key.limit);
  if (job_class.key.predicted > Duration(0)) run.predicted_end = AddSaturating(now_, job_class.key.predicted);
  const JobId& first = first_blocked(job_class.wants_gpu);
  Time passed_start = kNoTime;
  for (const PromiseSlot& slot : state_.promises) {
    if (slot.promise.entry == first) passed_start = slot.promise.start;
  }
  plan_.starts.push_back({run.id, place.id, run.pieces, first.is_set(), first, passed_start});

  state_.teams.AddWaiting(job_class.key.team, -job_class.least_milli);
  state_.waiting_count -= 1;
  entry.count -= 1;
  entry.named += 1;
  if (entry.count > 0) {
    job_class.line.SetCount(place, entry.count);
  } else {
    job_class.line.Erase(place);
    state_.waiting.erase(at);
    state_.draws.erase(place.id);
    if (job_class.line.empty()) {
      state_.fronts[index].is_waiting = false;
      for (const CapIndex cap : job_class.key.caps) state_.caps[cap].classes.erase(index);
    }
  }
  state_.HeadChanged(index, now_);
  has_started_ = true;
  is_pool_checked_ = false;
  for (std::size_t i = 0; i < state_.promises.size(); ++i) {
    if (state_.promises[i].promise.entry != place.id) continue;
    Forget(i);
    break;
  }
  PartHolds(index, run.pieces, now_);
  state_.AddRun(std::move(run), now_);
  // A cap that is full now may be that of a job with a promise, which then waits for the cap alone.
  for (const CapIndex cap : job_class.key.caps) {
    if (state_.caps[cap].limit == 0 || state_.caps[cap].running < state_.caps[cap].limit) continue;
    for (const PromiseSlot& slot : state_.promises) {
      const std::vector<CapIndex>& caps = state_.classes[slot.job_class].key.caps;
      if (std::binary_search(caps.begin(), caps.end(), cap)) state_.must_find_head = true;
    }
  }
}

// What nobody who waits can use goes to those who said that they can.
void Pass::GrowElastic() {
  if (state_.elastic.empty()) return;
  const bool somebody_waits = std::any_of(state_.fronts.begin(), state_.fronts.end(),
                                          [](const Front& front) { return front.wants_gpu && front.is_waiting; });
  if (somebody_waits) return;
  // One task each in turn, so that no job takes all.
  std::vector<Growth> growths;
  for (const JobId id : state_.elastic) growths.push_back({id, {}});
  std::vector<Growth*> open;
  for (Growth& growth : growths) open.push_back(&growth);
  while (!open.empty()) {
    std::erase_if(open, [&](Growth* growth) {
      const std::optional<Piece> piece = GrowByOne(growth->job);
      if (piece) growth->pieces.push_back(*piece);
      return !piece;
    });
  }
  for (Growth& growth : growths) {
    if (!growth.pieces.empty()) plan_.growths.push_back(std::move(growth));
  }
}

std::optional<Piece> Pass::GrowByOne(JobId id) {
  Run& run = state_.running.at(id);
  if (run.is_leaving || !run.leaving.empty()) return std::nullopt;
  const JobClass& job_class = state_.classes[run.job_class];
  const Ask& ask = state_.asks[job_class.key.ask];
  for (std::size_t group = 0; group < ask.groups.size(); ++group) {
    const auto has =
        std::count_if(run.pieces.begin(), run.pieces.end(), [&](const Piece& piece) { return piece.group == group; });
    if (has >= ask.groups[group].most) continue;
    const std::int64_t milli = ask.groups[group].alternatives.front().gpu_milli();
    if (state_.teams.OverLimit(job_class.key.team, milli) != kRootTeam) continue;
    if (job_class.is_firm() && state_.teams.OverFirmQuota(job_class.key.team, milli) != kRootTeam) continue;
    std::vector<NodeIndex> beside;
    if (ask.together == Together::kNode && ask.requires_together) beside.push_back(run.pieces.front().node);
    std::optional<Piece> piece;
    {
      Placing placing(state_, now_, now_);
      piece = placing.FindOne(ask, group, run, beside);
    }
    if (!piece) continue;
    state_.TakePiece(id, run, *piece, now_);
    run.pieces.push_back(*piece);
    state_.CountStart(job_class, milli, 0, now_);
    if (!state_.nodes[piece->node].holds.empty()) RefitHolds(state_, piece->node, now_);
    return piece;
  }
  return std::nullopt;
}

void Pass::FindWakeup() {
  Time next = state_.dated.empty() ? kNever : state_.dated.begin()->first;
  next = std::min({next, state_.next_change, state_.take_again});
  for (const PromiseSlot& slot : state_.promises) {
    if (slot.promise.start != kNever)
      next = std::min(next, std::max(slot.promise.start, now_ + std::chrono::seconds(1)));
  }
  for (const Booking& booking : state_.bookings) {
    if (booking.until > now_) next = std::min(next, booking.until);
    if (booking.from > now_) next = std::min(next, booking.from);
  }
  plan_.next_wakeup = next;
}

Plan Cluster::Decide(Time now, const NameMember& name) { return Pass(*state_, now, name).Decide(); }

Plan Cluster::DecideAnew(Time now, const NameMember& name) {
  for (ClassIndex index = 0; index < state_->classes.size(); ++index) state_->Freshen(index);
  state_->must_find_head = true;
  return Pass(*state_, now, name, 0).Decide();
}

}  // namespace divvy::core
