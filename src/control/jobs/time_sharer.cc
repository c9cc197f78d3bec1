#include "control/jobs/time_sharer.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "control/books/progress.h"
#include "control/books/record_parts.h"
#include "engine/message_text.h"
#include "engine/scheduler/idle_gpus.h"

namespace divvy {
namespace {

/// After a command failed, the next one waits this long.
constexpr Duration kRestAfterFailure = std::chrono::minutes(5);
constexpr Duration kReturnsAgainAfter = std::chrono::seconds(30);
/// A parked job does not take its GPUs back this long while the newcomer still waits. The engine keeps them for the
/// newcomer; only a restart of the controller loses that.
constexpr Duration kNewcomerStartsWithin = std::chrono::minutes(1);
/// A displaced job's time limit is extended by this until it is back, and then by what it has lost.
constexpr Duration kWhileDisplaced = std::chrono::hours(24 * 365);

// See WeightOf in engine/time_sharing: among sets of victims that free equally many GPUs, those with little to lose go
// first. In thousandths.
constexpr std::int64_t kUnsettledWeight = 5'000;
constexpr std::int64_t kSettledWeight = 1'000;

std::int64_t WeightOf(const time_sharing::JobView& view, const time_sharing::Options& options) {
  if (!view.is_settled) return kUnsettledWeight;
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(time_sharing::BudgetLeft(view, options)).count();
  return kSettledWeight + 1'000'000 / (std::max<std::int64_t>(left, 0) + 1);
}

/// The time that a settled job must at least be allowed to lose so that it is parked for another job.
Duration LeastBudget(const time_sharing::Options& options) {
  return options.park + options.wake + options.min_displacement;
}

}  // namespace

// --- State ----------------------------------------------------------------------------------------------------------

bool TimeSharer::LoadSetting(const std::string& key, const std::string& text) {
  if (!key.starts_with(kDisplacementPrefix)) return false;
  const auto job = ParseInteger(std::string_view(key).substr(kDisplacementPrefix.size()));
  auto state = DisplacementOfRow(text);
  if (job && *job > 0 && state) members_.insert_or_assign(JobId(static_cast<std::uint64_t>(*job)), *std::move(state));
  return true;
}

void TimeSharer::Restore(const JobRecord& record) {
  const auto at = members_.find(record.id);
  if (at == members_.end() || at->second.attempt != record.attempt) return;
  Displacement& state = at->second;
  const bool has_gpus = !record.gpus.empty();
  if (!has_gpus) state.presence = Presence::kAway;
  else if (state.presence == Presence::kAway) state.presence = Presence::kReturning;
  if (state.presence != Presence::kLeaving && state.presence != Presence::kAway) return;
  scheduler_.SetDisplaced(record.id, record.gpus, record.request.memory + ContentOf(record, state), true);
}

const Displacement* TimeSharer::Find(const JobRecord& record) const {
  const auto at = members_.find(record.id);
  return at == members_.end() || at->second.attempt != record.attempt || !IsActive(record.state) ? nullptr
                                                                                                 : &at->second;
}

Duration TimeSharer::LostBy(const JobRecord& record, Time now) const {
  const Displacement* state = Find(record);
  return state == nullptr ? Duration(0) : ViewOf(record, *state, now).lost;
}

Time TimeSharer::ReturnsBy(const JobRecord& record, Time now) const {
  const Displacement* state = Find(record);
  if (state == nullptr || !state->is_displaced() || state->settled_at == kNoTime) return kNever;
  return now + std::max(time_sharing::BudgetLeft(ViewOf(record, *state, now), options()), Duration(0));
}

Reason TimeSharer::ReasonOf(const JobRecord& record, Time now) const {
  const Displacement* state = Find(record);
  if (state == nullptr || !state->is_displaced() || record.state != JobState::kRunning) return "";
  const std::string since = record.reason + " for " + DurationText(now - state->displaced_at);
  if (state->presence == Presence::kReturning)
    return since + "; it is returning to " + GpusText(record.gpus) + (state->why.empty() ? "" : ": " + state->why);
  const Time by = ReturnsBy(record, now);
  return since + (by == kNever ? "; it returns when GPUs of its node are idle"
                               : "; it returns within " + DurationText(by - now));
}

Bytes TimeSharer::ContentOf(const JobRecord& record, const Displacement& state) const {
  constexpr std::int64_t kMebibyte = 1 << 20;
  const auto& gpus = scheduler_.node(nodes_.IndexOf(record.node).value_or(kOwnNode)).capacity.gpus;
  std::int64_t mebibytes = 0;
  for (const int gpu : state.gpus) {
    if (static_cast<std::size_t>(gpu) >= gpus.size()) continue;
    mebibytes += (gpus[static_cast<std::size_t>(gpu)].memory_total.count() + kMebibyte - 1) / kMebibyte;
  }
  return Bytes(mebibytes * kMebibyte);
}

std::string TimeSharer::TextOf(JobId job) const {
  const JobRecord* record = jobs_.Find(job);
  if (record == nullptr) return "job " + ToString(job);
  return "job " + DisplayId(*record) + " (" + record->name + ", " + record->user.name + ")";
}

void TimeSharer::Keep(const JobRecord& record, const Displacement& state) {
  effects_.ReplaceSetting(DisplacementRow(record.id, state));
}

void TimeSharer::WakeBy(Time at, Time now) {
  if (at > now) next_change_ = std::min(next_change_, at);
}

// --- Runs -----------------------------------------------------------------------------------------------------------

bool TimeSharer::NoteStart(JobRecord& record, Time now) {
  std::string parked;
  for (const auto& [job, state] : members_) {
    if (state.presence == Presence::kAway && (state.by == record.id || state.by == record.array) &&
        jobs_.live().contains(job))
      parked += (parked.empty() ? "" : ", ") + TextOf(job);
  }
  if (!parked.empty()) record.reason = record.start_reason += "; parked for it: " + parked;
  if (!feed_.policy().time_sharing.is_on || !IsParkable(record)) return false;
  Displacement state;
  state.attempt = record.attempt;
  state.gpus = record.gpus;
  state.here_since = now;
  members_.insert_or_assign(record.id, state);
  Keep(record, state);
  return true;
}

void TimeSharer::ForgetEnded() {
  for (auto at = members_.begin(); at != members_.end();) {
    const JobRecord* record = jobs_.Find(at->first);
    const bool is_there = record != nullptr && Find(*record) != nullptr;
    if (!is_there) effects_.ReplaceSetting({std::string(kDisplacementPrefix) + ToString(at->first), ""});
    at = is_there ? std::next(at) : members_.erase(at);
  }
}

std::vector<TimeSharer::Member> TimeSharer::Members(Time now) {
  std::vector<std::pair<Time, JobId>> order;
  for (const auto& [job, state] : members_) order.emplace_back(jobs_.live().at(job).queued_at, job);
  std::ranges::sort(order);
  std::vector<Member> members;
  for (const auto& [queued_at, job] : order) {
    JobRecord& record = jobs_.live().at(job);
    Displacement& state = members_.at(job);
    members.push_back({record, state, ViewOf(record, state, now)});
  }
  return members;
}

// --- The rule -------------------------------------------------------------------------------------------------------

void TimeSharer::Follow(Time now) {
  next_change_ = kNever;
  if (members_.empty()) return;
  ForgetEnded();
  std::vector<Member> members = Members(now);
  Settle(members, now);
  ReturnAll(members, now);
  Offer(members, now);
}

// A job settles if its node has room for it beside all others that have: those that cannot be parked count as settled.
void TimeSharer::Settle(std::vector<Member>& members, Time now) {
  const time_sharing::Options rule = options();
  std::map<NodeIndex, int> room;
  const auto room_of = [&](const Member& one) -> int& {
    const NodeIndex node = nodes_.IndexOf(one.record.node).value_or(kOwnNode);
    const auto [at, is_new] = room.try_emplace(node, scheduler_.node(node).present().size());
    if (is_new) at->second -= scheduler_.node(node).owned.size();
    return at->second;
  };
  for (const Member& one : members) {
    const bool is_fixed = !one.state.can_park && one.state.presence == Presence::kHere;
    room_of(one) += is_fixed ? 0 : one.record.gpus.size();
    if (one.view.is_settled && !is_fixed) room_of(one) -= one.gpus();
  }
  std::vector<Member*> order;
  for (Member& one : members) order.push_back(&one);
  // Jobs that have lost more time than Options::patience allows go first, the one that has lost most before the others.
  std::ranges::stable_sort(order, {}, [&](const Member* one) {
    return one->view.lost > rule.patience ? -one->view.lost : Duration(0);
  });
  for (Member* one : order) {
    if (one->view.is_settled || room_of(*one) < one->gpus()) continue;
    if (one->is_on_trial(rule)) {
      if (!one->state.is_displaced())
        WakeBy(now + (rule.trial - one->view.ran * one->gpus()) / one->gpus() + std::chrono::milliseconds(1), now);
      continue;
    }
    room_of(*one) -= one->gpus();
    one->state.settled_at = now;
    one->view = ViewOf(one->record, one->state, now);
    Keep(one->record, one->state);
  }
}

GpuSet TimeSharer::OpenTo(const Member& member, Time now) const {
  const NodeIndex index = nodes_.IndexOf(member.record.node).value_or(kOwnNode);
  const NodeUsage& node = scheduler_.node(index);
  // On a node that takes no new work, jobs that are parked there may still return to its GPUs.
  const GpuSet idle =
      node.takes_work ? IdleGpus(scheduler_, now).free(index) : node.usable - node.owned;
  const auto& gpus = node.capacity.gpus;
  if (member.state.gpus.empty() || static_cast<std::size_t>(member.state.gpus.First()) >= gpus.size()) return {};
  const GpuFacts& like = gpus[static_cast<std::size_t>(member.state.gpus.First())];
  GpuSet open;
  for (const int gpu : idle - scheduler_.NominatedOn(index)) {
    const GpuFacts& facts = gpus[static_cast<std::size_t>(gpu)];
    if (facts.model == like.model && facts.memory_total == like.memory_total) open.Insert(gpu);
  }
  return open;
}

// Lets parked jobs return: first those that are protected (settled), the one that may lose least time first.
void TimeSharer::ReturnAll(std::vector<Member>& members, Time now) {
  const time_sharing::Options rule = options();
  std::vector<Member*> away;
  for (Member& one : members) {
    if (one.record.state != JobState::kRunning || !nodes_.DisconnectReason(one.record.node).empty()) continue;
    if (one.state.presence == Presence::kReturning && one.state.rests_until != kNoTime) {
      if (one.state.rests_until > now) {
        WakeBy(one.state.rests_until, now);
        continue;
      }
      one.state.rests_until = kNoTime;
      Command(one.record, one.state);
    }
    if (one.state.presence == Presence::kAway) away.push_back(&one);
  }
  const auto order = [&](const Member* one) {
    return std::tuple(!one->view.is_settled, one->view.is_settled ? BudgetLeft(one->view, rule) : Duration(0));
  };
  std::ranges::stable_sort(away, {}, order);
  for (Member* one : away) {
    const JobRecord* newcomer = jobs_.Find(one->state.by);
    const Time patient = one->state.displaced_at + kNewcomerStartsWithin;
    if (newcomer != nullptr && IsWaiting(newcomer->state) && now < patient) {
      WakeBy(patient, now);
      continue;
    }
    const GpuSet open = OpenTo(*one, now);
    const NodeUsage& node = scheduler_.node(nodes_.IndexOf(one->record.node).value_or(kOwnNode));
    const TopologyNeed need = one->record.request.requires_topology ? one->record.request.topology : TopologyNeed::kAny;
    std::optional<GpuSet> gpus;
    if ((one->state.gpus - open).empty()) gpus = one->state.gpus;
    else if (open.size() >= one->gpus()) gpus = node.topology.Pick(open, one->gpus(), UsualSizeDemand(), OfGpus(need));
    if (gpus) Return(one->record, one->state, *gpus, now);
    else if (one->view.is_settled) MakeRoom(members, *one, now);
  }
}

void TimeSharer::MakeRoom(std::vector<Member>& members, Member& owner, Time now) {
  const time_sharing::Options rule = options();
  const Duration left = time_sharing::BudgetLeft(owner.view, rule) - rule.park - rule.wake;
  const bool is_due = left <= Duration(0);
  if (!is_due) WakeBy(now + left, now);
  int needed = owner.gpus() - OpenTo(owner, now).size();
  std::vector<Member*> victims;
  for (Member& one : members) {
    if (one.record.node != owner.record.node || one.view.is_settled) continue;
    if (one.state.presence == Presence::kLeaving && one.state.by == owner.record.id) needed -= one.gpus();
    if (!MayLeave(one, now) || !HasMemoryFor(one)) continue;
    if (!is_due && (one.is_on_trial(rule) || now < one.state.here_since + rule.min_run)) {
      // A job that is on trial is parked only after its trial, unless a protected job would lose too much time
      // meanwhile.
      const Duration trial = one.is_on_trial(rule) ? (rule.trial - one.view.ran * one.gpus()) / one.gpus() : Duration(0);
      WakeBy(std::max(now + trial, one.state.here_since + rule.min_run) + std::chrono::milliseconds(1), now);
      continue;
    }
    victims.push_back(&one);
  }
  // Prefers to park one job that has enough GPUs, with as few GPUs as possible; if there is none, the largest jobs.
  std::ranges::stable_sort(victims, {}, [&](const Member* one) {
    return std::tuple(one->gpus() < needed, one->gpus() < needed ? -one->gpus() : one->gpus(), one->is_on_trial(rule));
  });
  int freed = 0;
  std::vector<Member*> chosen;
  for (Member* one : victims) {
    if (freed >= needed) break;
    freed += one->gpus();
    chosen.push_back(one);
  }
  if (needed <= 0 || freed < needed) return;
  for (Member* one : chosen) {
    const Bytes memory = one->record.request.memory + ContentOf(one->record, one->state);
    scheduler_.SetDisplaced(one->record.id, one->record.gpus, memory, true);
    Leave(one->record, one->state, owner.record.id, now);
  }
}

bool TimeSharer::HasMemoryFor(const Member& one) const {
  const NodeUsage& node = scheduler_.node(nodes_.IndexOf(one.record.node).value_or(kOwnNode));
  return node.memory_claimed + ContentOf(one.record, one.state) <= node.capacity.memory;
}

bool TimeSharer::MayLeave(const Member& one, Time now) const {
  return one.record.state == JobState::kRunning && one.record.stop_intent == StopIntent::kNone &&
         one.state.presence == Presence::kHere && one.state.can_park &&
         (one.state.rests_until == kNoTime || one.state.rests_until <= now) &&
         nodes_.DisconnectReason(one.record.node).empty();
}

void TimeSharer::Offer(const std::vector<Member>& members, Time now) {
  const time_sharing::Options rule = options();
  std::vector<ParkCandidate> candidates;
  for (const Member& one : members) {
    if (!feed_.policy().time_sharing.is_on || one.record.is_foreground || one.record.wants_pty) continue;
    if (one.state.rests_until != kNoTime) WakeBy(one.state.rests_until, now);
    if (!MayLeave(one, now)) continue;
    Time from = one.state.here_since + rule.min_run;
    if (one.is_on_trial(rule))
      from = std::max(from, now + (rule.trial - one.view.ran * one.gpus()) / one.gpus() + std::chrono::milliseconds(1));
    const Duration missing = LeastBudget(rule) - time_sharing::BudgetLeft(one.view, rule);
    if (one.view.is_settled && missing > Duration(0)) {
      if (!rule.at_most || *rule.at_most <= 0) continue;
      const double wait = static_cast<double>(missing.count()) / *rule.at_most;
      from = std::max(from, AddSaturating(now, Duration(static_cast<std::int64_t>(wait)) + std::chrono::milliseconds(1)));
    }
    WakeBy(from, now);
    if (from <= now)
      candidates.push_back({one.record.id, WeightOf(one.view, rule), ContentOf(one.record, one.state)});
  }
  scheduler_.SetParkCandidates(std::move(candidates));
}

void TimeSharer::Park(const Parking& parking, Time now) {
  Leave(jobs_.live().at(parking.job), members_.at(parking.job), parking.newcomer, now);
}

// --- Steps ----------------------------------------------------------------------------------------------------------

void TimeSharer::Command(const JobRecord& record, const Displacement& state) {
  const bool leaves = state.presence == Presence::kLeaving || state.presence == Presence::kAway;
  effects_.Send(DisplaceCommand{record.id, record.attempt, leaves, leaves ? GpuSet() : record.gpus, record.node});
}

void TimeSharer::Leave(JobRecord& record, Displacement& state, JobId by, Time now) {
  state.presence = Presence::kLeaving;
  state.by = by;
  state.gpus = record.gpus;
  state.displaced_at = now;
  state.why.clear();
  if (record.time_limit > Duration(0)) {
    state.time_limit = record.time_limit;
    record.time_limit = std::min(record.time_limit, kWhileDisplaced) + kWhileDisplaced;
    scheduler_.SetKnownEnd(record.id, Deadline(record));
    effects_.Send(record, TimeLimitCommand{record.id, Deadline(record), ""});
  }
  record.reason = "parked for " + TextOf(by);
  effects_.Note(record.id, record.reason, now);
  effects_.Persist(record);
  Keep(record, state);
  Command(record, state);
  effects_.Announce(record);
}

// Ends a job's time without GPUs, because it has returned to them. Its time limit is restored, and that time does not
// count.
void TimeSharer::EndLoss(JobRecord& record, Displacement& state, Time now) {
  const time_sharing::JobView view = ViewOf(record, state, now);
  const Duration lost = view.lost - state.lost;
  state.lost = view.lost;
  state.lost_settled = view.lost_settled;
  state.displaced_at = kNoTime;
  state.presence = Presence::kHere;
  if (state.time_limit > Duration(0)) {
    const Duration own = std::exchange(state.time_limit, Duration(0));
    // Restores the job's own time limit, extended by the time without GPUs, unless the limit was changed meanwhile.
    if (record.time_limit >= kWhileDisplaced) record.time_limit = own + lost;
    scheduler_.SetKnownEnd(record.id, Deadline(record));
    effects_.Send(record, TimeLimitCommand{record.id, Deadline(record), ""});
  }
  if (record.state == JobState::kRunning) record.reason = record.start_reason;
  effects_.Persist(record);
  Keep(record, state);
  effects_.Announce(record);
  effects_.RequestPlan();
}

void TimeSharer::Stay(JobRecord& record, Displacement& state, const std::string& why, Time now) {
  scheduler_.SetDisplaced(record.id, record.gpus, record.request.memory, false);
  state.rests_until = now + kRestAfterFailure;
  effects_.Note(record.id, "keeps its GPUs: it could not be parked: " + why, now);
  EndLoss(record, state, now);
}

void TimeSharer::GoAway(JobRecord& record, Displacement& state, Time now) {
  budgets_.CountUsage(record, now);
  state.presence = Presence::kAway;
  record.gpus = record.gpus_used = GpuSet();
  record.gpus_since = now;
  MeasureAnew(record.progress);
  scheduler_.SetDisplaced(record.id, {}, record.request.memory + ContentOf(record, state), true);
  effects_.Note(record.id, "has left " + GpusText(state.gpus), now);
  effects_.Persist(record);
  Keep(record, state);
  effects_.Announce(record);
  effects_.RequestPlan();
}

void TimeSharer::Return(JobRecord& record, Displacement& state, GpuSet gpus, Time now) {
  state.presence = Presence::kReturning;
  state.gpus = gpus;
  state.why.clear();
  state.rests_until = kNoTime;
  record.gpus = record.gpus_used = gpus;
  record.gpus_since = now;
  record.gpu_model = nodes_.ModelOf(record);
  scheduler_.SetDisplaced(record.id, gpus, record.request.memory, false);
  effects_.Note(record.id, "returns to " + GpusText(gpus), now);
  effects_.Persist(record);
  Keep(record, state);
  Command(record, state);
  effects_.Announce(record);
}

void TimeSharer::Arrive(JobRecord& record, Displacement& state, Time now) {
  state.here_since = now;
  EndLoss(record, state, now);
}

void TimeSharer::OnPresence(const PresenceReport& report, Time now, const std::string& node) {
  const auto found = jobs_.live().find(report.job);
  if (found == jobs_.live().end()) return;
  JobRecord& record = found->second;
  if (record.attempt != report.attempt || !IsActive(record.state) || record.node != node || !record.gang.empty()) return;
  auto at = members_.find(report.job);
  if (at == members_.end() || at->second.attempt != report.attempt) {
    // The job's row with its time-sharing state is missing or cannot be read. Its record says whether it has GPUs.
    if (!IsParkable(record) || record.gpus.empty()) return;
    Displacement state;
    state.attempt = record.attempt;
    state.gpus = record.gpus;
    state.here_since = record.started;
    at = members_.insert_or_assign(report.job, state).first;
    Keep(record, at->second);
  }
  Displacement& state = at->second;
  const bool could_park = std::exchange(state.can_park, report.can_park);
  if (!state.has_report || could_park != report.can_park) effects_.RequestPlan();
  state.has_report = true;
  state.why = report.why;
  const bool is_here = report.presence == Presence::kHere;
  const bool is_away = report.presence == Presence::kAway;
  switch (state.presence) {
    case Presence::kHere:
      if (is_away || (is_here && report.gpus != record.gpus)) Command(record, state);
      break;
    case Presence::kLeaving:
      if (is_away) GoAway(record, state, now);
      else if (is_here && !report.why.empty()) Stay(record, state, report.why, now);
      else if (is_here) Command(record, state);
      break;
    case Presence::kAway:
      if (!is_away) Command(record, state);
      break;
    case Presence::kReturning:
      if (is_here && report.gpus == record.gpus) {
        Arrive(record, state, now);
      } else if (is_away && !report.why.empty()) {
        state.rests_until = now + kReturnsAgainAfter;
        effects_.RequestPlan();
      } else if (is_here || is_away) {
        Command(record, state);
      }
      break;
  }
}

}  // namespace divvy
