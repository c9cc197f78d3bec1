#include "control/jobs/time_sharer.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "control/books/progress.h"
#include "control/books/record_parts.h"
#include "engine/message_text.h"

namespace divvy {
namespace {

/// A job that could not be parked is not parked again for this long.
constexpr Duration kRestAfterFailure = std::chrono::minutes(5);
/// A command that has failed is sent again this long after it was sent.
constexpr Duration kRepeatsAfter = std::chrono::seconds(30);
/// A parked job does not take its GPUs back this long while the newcomer still waits. The engine keeps them for the
/// newcomer; only a restart of the controller loses that.
constexpr Duration kNewcomerStartsWithin = std::chrono::minutes(1);
/// GPU memory is copied to the host, or back, at least this fast, in bytes.
constexpr std::int64_t kCopiedPerSecond = std::int64_t{4} << 30;
/// A job keeps its GPUs if it has not left them within this time and that of four copies.
constexpr Duration kLeavesWithin = std::chrono::minutes(5);

/// A job runs at least this many times as long as its copies take before it is displaced again. The default times of
/// time_sharing::Options have the same ratio.
constexpr int kRunsPerCopy = 6;

/// Returns when a job on trial will have run for its trial time, if it keeps its GPUs.
Time TrialEnd(const time_sharing::JobView& view, const time_sharing::Options& options, Time now) {
  return now + (options.trial - view.ran * view.gpus) / view.gpus + std::chrono::milliseconds(1);
}

NodeIndex IndexOfNode(const NodeTable& nodes, const JobRecord& record) {
  return nodes.IndexOf(record.node).value_or(kOwnNode);
}

Duration CopyTime(Bytes content, const time_sharing::Options& options) {
  const Duration copy = std::chrono::seconds(content.count() / kCopiedPerSecond + 1);
  return std::max({copy, options.park, options.wake});
}

/// Returns how long the last park and return of a job took together; 0 if it was not parked yet. At most as long as the
/// rule assumes, because the node may have done other work meanwhile.
Duration MeasuredCopies(const Displacement& state, const time_sharing::Options& options) {
  const Duration park = state.park_time > Duration(0) ? state.park_time : state.return_time;
  const Duration back = state.return_time > Duration(0) ? state.return_time : state.park_time;
  return std::min(park + back, options.park + options.wake);
}

/// Returns how long a job that has returned runs at least.
Duration LeastRun(const Displacement& state, const time_sharing::Options& options) {
  const Duration copies = MeasuredCopies(state, options);
  return copies > Duration(0) ? std::min(options.min_run, kRunsPerCopy * copies) : options.min_run;
}

void EndSetAside(Displacement& state, Time now) {
  if (std::exchange(state.set_aside, SetAside::kNo) == SetAside::kNo) return;
  state.lost_aside += std::max(now - state.displaced_at, Duration(0));
}

/// Returns how long a promoted trial waits for GPUs of its node. After that, starting again would have cost no more.
Duration PromotedWaits(const time_sharing::JobView& view) {
  return std::max<Duration>(view.ran, std::chrono::minutes(10));
}

/// A settled job is displaced only if its budget is at least this.
Duration LeastBudget(Bytes content, const time_sharing::Options& options) {
  return 2 * CopyTime(content, options) + options.min_displacement;
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
  auto at = members_.find(record.id);
  if (at == members_.end() || at->second.attempt != record.attempt) {
    if (!HasLeftItsGpus(record)) return;
    // Its row is missing or unreadable. It returns to GPUs like the first ones of its node.
    Displacement lost;
    lost.attempt = record.attempt;
    lost.gpus = GpuSet::FirstN(record.request.gpus);
    lost.here_since = record.started;
    lost.displaced_at = record.gpus_since == kNoTime ? record.started : record.gpus_since;
    at = members_.insert_or_assign(record.id, lost).first;
    Keep(record, at->second);
  }
  Displacement& state = at->second;
  if (state.limit == kAnyLimit) {
    state.limit = record.time_limit;
    Keep(record, state);
  }
  if (HasLeftItsGpus(record)) state.presence = Presence::kAway;
  else if (state.presence == Presence::kAway) state.presence = Presence::kReturning;
  if (state.presence == Presence::kHere) return;
  const bool is_displaced = state.presence != Presence::kReturning;
  scheduler_.SetDisplaced(record.id, record.gpus, MemoryWithContent(record, state), is_displaced);
  if (state.presence != Presence::kAway) return;
  scheduler_.SetKnownEnd(record.id, kNever);
  if (state.set_aside != SetAside::kNo) feed_.SetAside(record.id, true);
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

Duration TimeSharer::LimitExtensionOf(const JobRecord& record) const {
  const auto at = members_.find(record.id);
  if (at == members_.end() || at->second.attempt != record.attempt) return Duration(0);
  const Displacement& state = at->second;
  const bool is_extended = state.limit == record.time_limit || state.limit == kAnyLimit;
  return is_extended && state.extended < record.time_limit ? state.extended : Duration(0);
}

Time TimeSharer::ReturnsBy(const JobRecord& record, Time now) const {
  const Displacement* state = Find(record);
  const bool is_owed = state != nullptr && state->is_displaced() && state->set_aside == SetAside::kNo;
  if (!is_owed || state->settled_at == kNoTime) return kNever;
  return now + std::max(time_sharing::BudgetLeft(ViewOf(record, *state, now), options()), Duration(0));
}

std::optional<TimeSharingStatus> TimeSharer::StatusOf(const JobRecord& record, Time now) const {
  const Displacement* state = Find(record);
  if (state == nullptr || record.state != JobState::kRunning) return std::nullopt;
  if (!IsOnFor(IndexOfNode(nodes_, record)) && !state->is_displaced()) return std::nullopt;
  const time_sharing::JobView view = ViewOf(record, *state, now);
  TimeSharingStatus status;
  status.stage = view.is_settled                          ? TimeSharingStage::kSettled
                 : view.ran * view.gpus < options().trial ? TimeSharingStage::kTrial
                                                          : TimeSharingStage::kLong;
  status.is_displaced = state->is_displaced();
  status.lost = view.lost;
  if (status.is_displaced) {
    const JobRecord* by = jobs_.Find(state->by);
    if (by != nullptr) status.parked_for = DisplayId(*by);
    else if (state->by.is_set()) status.parked_for = ToString(state->by);
    status.returns_by = ReturnsBy(record, now);
  } else if (state->has_report && !state->can_park) {
    status.why_kept = state->why;
  }
  return status;
}

TimeSharingTotals TimeSharer::TotalsAt(Time now) const {
  TimeSharingTotals totals = totals_;
  for (const auto& [job, state] : members_) {
    const JobRecord* record = jobs_.Find(job);
    const std::optional<TimeSharingStatus> status = record == nullptr ? std::nullopt : StatusOf(*record, now);
    const bool is_of_sweep = state.is_displaced() && !state.by.is_set();
    if (!status || is_of_sweep) continue;
    if (status->is_displaced) ++totals.parked;
    else if (status->stage == TimeSharingStage::kTrial) ++totals.on_trial;
    else ++totals.past_trial;
  }
  return totals;
}

bool TimeSharer::IsOnFor(NodeIndex node) const {
  const TimeSharingMode mode = feed_.policy().time_sharing.mode;
  return mode == TimeSharingMode::kOn || (mode == TimeSharingMode::kAuto && IsEmulated(nodes_.GpuSourceOf(node)));
}

std::string TimeSharer::ModeText() const {
  const TimeSharingMode mode = feed_.policy().time_sharing.mode;
  if (mode != TimeSharingMode::kAuto) return mode == TimeSharingMode::kOn ? "on" : "off";
  int with_gpus = 0;
  int on = 0;
  for (NodeIndex node = 0; node < scheduler_.nodes().size(); ++node) {
    if (scheduler_.node(node).capacity.gpus.empty()) continue;
    ++with_gpus;
    on += IsOnFor(node);
  }
  if (on == with_gpus) return on == 0 ? "auto" : "auto: on";
  const std::string why = std::string("parking was not tested with ") + (on == 0 ? "these" : "the other") +
                          " GPUs; mode = \"on\" uses it all the same";
  if (on == 0) return "auto: off, because " + why;
  return "auto: on for " + std::to_string(on) + " of " + std::to_string(with_gpus) + " nodes with GPUs; " + why;
}

Reason TimeSharer::ReasonOf(const JobRecord& record, Time now) const {
  const Displacement* state = Find(record);
  if (state == nullptr || !state->is_displaced() || record.state != JobState::kRunning) return "";
  const std::string since = record.reason + " for " + DurationText(now - state->displaced_at);
  if (state->presence == Presence::kReturning)
    return since + "; it is returning to " + GpusText(record.gpus) + (state->why.empty() ? "" : ": " + state->why);
  if (state->set_aside == SetAside::kUntilPromoted) return since + "; it returns when it is promoted";
  if (state->set_aside == SetAside::kPromoted && state->idle_since != kNoTime) {
    const Time until = state->idle_since + PromotedWaits(ViewOf(record, *state, now));
    return since + "; it is promoted and returns when GPUs of its node are idle; if none are within " +
           DurationText(std::max(until - now, Duration(0))) + ", it starts again as a new run";
  }
  const Time by = ReturnsBy(record, now);
  return since + (by == kNever ? "; it returns when GPUs of its node are idle"
                               : "; it returns within " + DurationText(by - now));
}

Bytes TimeSharer::ContentOf(const JobRecord& record, const Displacement& state) const {
  constexpr std::int64_t kMebibyte = 1 << 20;
  const auto& gpus = scheduler_.node(IndexOfNode(nodes_, record)).capacity.gpus;
  std::int64_t mebibytes = 0;
  for (const int gpu : state.gpus) {
    if (static_cast<std::size_t>(gpu) >= gpus.size()) continue;
    mebibytes += (gpus[static_cast<std::size_t>(gpu)].memory_total.count() + kMebibyte - 1) / kMebibyte;
  }
  return Bytes(mebibytes * kMebibyte);
}

Bytes TimeSharer::MemoryWithContent(const JobRecord& record, const Displacement& state) const {
  return record.request.memory + ContentOf(record, state);
}

Duration TimeSharer::LeavesWithin(const JobRecord& record, const Displacement& state) const {
  return kLeavesWithin + 4 * CopyTime(ContentOf(record, state), options());
}

std::string TimeSharer::TextOf(JobId job) const {
  const JobRecord* record = jobs_.Find(job);
  if (record == nullptr) return "job " + ToString(job);
  return "job " + DisplayId(*record) + " of " + record->user.name;
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
  for (auto& [job, state] : members_) {
    const auto live = jobs_.live().find(job);
    const bool is_away = state.presence == Presence::kAway && state.set_aside == SetAside::kNo;
    if (!is_away || live == jobs_.live().end()) continue;
    const bool is_cause = state.by.is_set() && (state.by == record.id || state.by == record.array);
    // One that is being stopped keeps the reason for that.
    const bool is_steady = live->second.state == JobState::kRunning && live->second.stop_intent == StopIntent::kNone;
    const bool takes_over = is_steady && live->second.node == record.node && !(state.gpus & record.gpus).empty();
    if (!is_cause && !takes_over) continue;
    parked += (parked.empty() ? "" : ", ") + TextOf(job);
    if (is_cause) continue;
    state.by = record.id;
    SetReason(live->second, state, "parked for " + TextOf(record.id), now);
  }
  if (!parked.empty()) record.reason = record.start_reason += "; parked for it: " + parked;
  const bool may_set_aside = may_set_aside_ && may_set_aside_(record);
  if ((!IsOnFor(IndexOfNode(nodes_, record)) && !may_set_aside) || !IsParkable(record)) return false;
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
    const auto live = jobs_.live().find(at->first);
    const bool is_there = live != jobs_.live().end() && Find(live->second) != nullptr;
    // The next run has the limit that was asked for.
    const bool is_again = live != jobs_.live().end() && IsWaiting(live->second.state);
    const Duration extended = is_again ? LimitExtensionOf(live->second) : Duration(0);
    if (extended > Duration(0)) {
      live->second.time_limit -= extended;
      effects_.Persist(live->second);
      feed_.Put(live->second);
    }
    if (!is_there) {
      effects_.ReplaceSetting({std::string(kDisplacementPrefix) + ToString(at->first), ""});
      feed_.SetAside(at->first, false);
    }
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
  RepeatCommands(members, now);
  ReturnAll(members, now);
  KeepNodes(members);
  Offer(members, now);
}

// A job settles if its node has room for it and all jobs that have settled. Those that cannot be parked count as
// settled.
void TimeSharer::Settle(std::vector<Member>& members, Time now) {
  const time_sharing::Options rule = options();
  std::map<NodeIndex, int> room;
  const auto room_of = [&](const Member& one) -> int& {
    const NodeIndex node = IndexOfNode(nodes_, one.record);
    const auto [at, is_new] = room.try_emplace(node, scheduler_.node(node).present().size());
    if (is_new) at->second -= scheduler_.node(node).owned.size();
    return at->second;
  };
  for (const Member& one : members) {
    const bool is_fixed = !one.state.can_park && one.state.presence == Presence::kHere;
    room_of(one) += is_fixed ? 0 : one.record.gpus.size();
    if (one.is_set_aside()) continue;
    if (one.view.is_settled && !is_fixed) room_of(one) -= one.gpus();
  }
  std::vector<Member*> order;
  for (Member& one : members) order.push_back(&one);
  // The job that has lost most goes first once it has lost too much.
  std::ranges::stable_sort(order, {}, [&](const Member* one) {
    const Duration lost = one->view.lost - one->state.lost_aside;
    return lost > rule.patience ? -lost : Duration(0);
  });
  for (Member* one : order) {
    if (one->view.is_settled || one->is_set_aside() || room_of(*one) < one->gpus()) continue;
    if (one->is_on_trial(rule)) {
      if (!one->state.is_displaced()) WakeBy(TrialEnd(one->view, rule, now), now);
      continue;
    }
    room_of(*one) -= one->gpus();
    one->state.settled_at = now;
    one->view = ViewOf(one->record, one->state, now);
    Keep(one->record, one->state);
  }
}

// While a settled job is displaced, only jobs that can be parked start on its node: others would not give it its GPUs
// back when its budget is used up. While jobs make room for it, none starts there.
void TimeSharer::KeepNodes(const std::vector<Member>& members) {
  std::map<std::string, SchedulerFeed::KeptNode> kept;
  for (const Member& one : members) {
    const bool is_gone = one.state.presence == Presence::kLeaving || one.state.presence == Presence::kAway;
    if (!one.view.is_settled || !is_gone || one.is_set_aside()) continue;
    SchedulerFeed::KeptNode& node = kept[one.record.node];
    if (node.why.empty()) node.why = TextOf(one.record.id) + ", which is parked, to return to its GPUs";
    node.is_for_all |= one.state.presence == Presence::kAway && std::ranges::any_of(members, [&](const Member& other) {
                         return other.state.presence == Presence::kLeaving && other.state.by == one.record.id;
                       });
  }
  feed_.SetKeptNodes(std::move(kept));
}

void TimeSharer::RepeatCommands(std::vector<Member>& members, Time now) {
  for (Member& one : members) {
    Displacement& state = one.state;
    if (!nodes_.DisconnectReason(one.record.node).empty()) continue;
    if (state.presence == Presence::kLeaving) {
      const Duration patience = LeavesWithin(one.record, state);
      if (state.displaced_at + patience <= now) {
        StopLeaving(one.record, state, "it has not left its GPUs within " + DurationText(patience), now);
        continue;
      }
      WakeBy(state.displaced_at + patience, now);
    }
    if (state.repeats_at == kNoTime) continue;
    if (state.repeats_at <= now) Command(one.record, state, now);
    else WakeBy(state.repeats_at, now);
  }
}

GpuSet TimeSharer::SuitableFor(const Member& member, Time now) const {
  const NodeIndex index = IndexOfNode(nodes_, member.record);
  const NodeUsage& node = scheduler_.node(index);
  const auto& gpus = node.capacity.gpus;
  if (member.state.gpus.empty() || static_cast<std::size_t>(member.state.gpus.First()) >= gpus.size()) return {};
  const GpuFacts& like = gpus[static_cast<std::size_t>(member.state.gpus.First())];
  GpuSet suitable;
  // Also on a node that takes no new work: it keeps its own jobs.
  for (const int gpu : node.usable - scheduler_.ClosedTo(member.record.id, index, now)) {
    const GpuFacts& facts = gpus[static_cast<std::size_t>(gpu)];
    if (facts.model == like.model && facts.memory_total == like.memory_total) suitable.Insert(gpu);
  }
  return suitable;
}

GpuSet TimeSharer::OpenTo(const Member& member, Time now) const {
  const NodeIndex index = IndexOfNode(nodes_, member.record);
  return SuitableFor(member, now) - scheduler_.node(index).owned - scheduler_.NominatedOn(index);
}

std::optional<GpuSet> TimeSharer::PlaceFor(const Member& member, GpuSet open) const {
  if (!member.state.gpus.empty() && (member.state.gpus - open).empty()) return member.state.gpus;
  if (open.size() < member.gpus()) return std::nullopt;
  const Request& request = member.record.request;
  const TopologyNeed need = request.requires_topology ? request.topology : TopologyNeed::kAny;
  const NodeUsage& node = scheduler_.node(IndexOfNode(nodes_, member.record));
  return node.topology.Pick(open, member.gpus(), UsualSizeDemand(), OfGpus(need));
}

// Lets parked jobs return: first those that are protected (settled), the one that may lose least time first.
void TimeSharer::ReturnAll(std::vector<Member>& members, Time now) {
  const time_sharing::Options rule = options();
  std::vector<Member*> away;
  for (Member& one : members) {
    const bool may_return = one.record.state == JobState::kRunning && one.record.stop_intent == StopIntent::kNone &&
                            nodes_.DisconnectReason(one.record.node).empty();
    const bool is_away = one.state.presence == Presence::kAway && one.state.set_aside != SetAside::kUntilPromoted;
    if (may_return && is_away) away.push_back(&one);
    else if (is_away) one.state.idle_since = kNoTime;  // Nothing can become idle for it now.
  }
  const auto is_owed = [](const Member* one) { return one->view.is_settled && !one->is_set_aside(); };
  const auto order = [&](const Member* one) {
    return std::tuple(!is_owed(one), is_owed(one) ? BudgetLeft(one->view, rule) : Duration(0));
  };
  std::ranges::stable_sort(away, {}, order);
  // While room is made for a job, idle GPUs stay idle for it: those that have left must not take them back.
  std::map<std::string, GpuSet> kept;
  for (Member* one : away) {
    const JobRecord* newcomer = jobs_.Find(one->state.by);
    const Time patient = one->state.displaced_at + kNewcomerStartsWithin;
    if (newcomer != nullptr && IsWaiting(newcomer->state) && now < patient) {
      WakeBy(patient, now);
      continue;
    }
    if (one->is_set_aside() && !feed_.AreGroupsBelowLimits(one->record)) continue;
    const GpuSet open = OpenTo(*one, now) - kept[one->record.node];
    const bool has_cpus = !one->is_set_aside() || feed_.HasCpusAgain(one->record);
    const std::optional<GpuSet> gpus = has_cpus ? PlaceFor(*one, open) : std::nullopt;
    if (!gpus && one->is_set_aside()) {
      Displacement& state = one->state;
      if (state.idle_since == kNoTime) state.idle_since = now;
      const Time until = state.idle_since + PromotedWaits(one->view);
      if (now >= until && state.failure.empty()) {
        state.failure = "its node had no idle GPUs and CPUs for it within " + DurationText(until - state.idle_since);
        WakeBy(now + std::chrono::milliseconds(1), now);  // Its sweep acts at the next decision.
      }
      WakeBy(until, now);
      continue;
    }
    if (!gpus) one->state.idle_since = kNoTime;
    if (gpus && is_owed(one) && LeavesIdle(*one, now)) kept[one->record.node] |= *gpus;
    else if (gpus) Return(one->record, one->state, *gpus, now);
    else if (is_owed(one) && MakeRoom(members, *one, open, now)) kept[one->record.node] |= open;
  }
}

// When jobs arrive one after the other, the next one then starts at once and nothing is copied. The wait costs no more
// than the copies, and the contract counts it.
bool TimeSharer::LeavesIdle(Member& member, Time now) {
  const time_sharing::Options rule = options();
  Displacement& state = member.state;
  const Bytes content = ContentOf(member.record, state);
  if (!member.view.is_settled || time_sharing::BudgetLeft(member.view, rule) < LeastBudget(content, rule)) return false;
  if (state.idle_since == kNoTime) state.idle_since = now;
  const Time until = state.idle_since + MeasuredCopies(state, rule);
  WakeBy(until, now);
  return now < until;
}

bool TimeSharer::MakeRoom(std::vector<Member>& members, Member& owner, GpuSet open, Time now) {
  const time_sharing::Options rule = options();
  const GpuSet suitable = SuitableFor(owner, now);
  Duration park = rule.park;
  GpuSet leaving;
  for (const Member& one : members) {
    if (one.record.node != owner.record.node) continue;
    if (!one.record.gpus.empty()) park = std::max(park, CopyTime(ContentOf(one.record, one.state), rule));
    const bool leaves_for_it = one.state.by == owner.record.id || one.is_set_aside();
    if (one.state.presence == Presence::kLeaving && leaves_for_it) leaving |= one.record.gpus & suitable;
  }
  GpuSet then = open | leaving;
  if (PlaceFor(owner, then)) return !leaving.empty();
  const Duration left =
      time_sharing::BudgetLeft(owner.view, rule) - park - CopyTime(ContentOf(owner.record, owner.state), rule);
  // A job that has just returned is left alone while that is possible, and a trial as long as the contract allows.
  const bool is_due = left <= rule.min_run;
  const bool is_late = left <= Duration(0);
  if (!is_late) WakeBy(now + (is_due ? left : left - rule.min_run), now);
  const int needed = owner.gpus() - then.size();
  const auto frees = [&](const Member* one) { return (one->record.gpus & suitable).size(); };
  std::vector<Member*> victims;
  for (Member& one : members) {
    if (!IsOnFor(IndexOfNode(nodes_, one.record))) continue;  // A trial that only its sweep may park.
    if (one.record.node != owner.record.node || one.view.is_settled || frees(&one) == 0 || !MayLeave(one, now))
      continue;
    const Time rested = one.state.here_since + LeastRun(one.state, rule);
    if (now < rested && !is_late) {
      WakeBy(rested, now);
      continue;
    }
    if (one.is_on_trial(rule) && !is_due) {
      WakeBy(TrialEnd(one.view, rule, now), now);
      continue;
    }
    victims.push_back(&one);
  }
  // Prefers to park one job that has enough GPUs, with as few GPUs as possible; if there is none, the largest jobs.
  std::ranges::stable_sort(victims, {}, [&](const Member* one) {
    const int freed = frees(one);
    return std::tuple(freed < needed, freed < needed ? -freed : freed, one->gpus(), one->is_on_trial(rule));
  });
  const NodeUsage& node = scheduler_.node(IndexOfNode(nodes_, owner.record));
  Bytes claimed = node.memory_claimed;
  std::vector<Member*> chosen;
  for (Member* one : victims) {
    if (PlaceFor(owner, then)) break;
    const Bytes content = ContentOf(one->record, one->state);
    if (claimed + content > node.capacity.memory) continue;
    claimed += content;
    then |= one->record.gpus & suitable;
    chosen.push_back(one);
  }
  if (!PlaceFor(owner, then)) return !leaving.empty();
  for (Member* one : chosen) {
    scheduler_.SetDisplaced(one->record.id, one->record.gpus, MemoryWithContent(one->record, one->state), true);
    Leave(one->record, one->state, owner.record.id, now);
  }
  return true;
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
  // After a restart, the scheduler does not know for whom a job leaves. It would park another one for the same
  // newcomer.
  const bool is_unknown = std::ranges::any_of(members, [&](const Member& one) {
    const JobRecord* newcomer = jobs_.Find(one.state.by);
    if (one.state.presence != Presence::kLeaving || newcomer == nullptr || !IsWaiting(newcomer->state)) return false;
    const NodeIndex node = IndexOfNode(nodes_, one.record);
    return (scheduler_.NominatedOn(node) & one.record.gpus).empty();
  });
  if (is_unknown) return scheduler_.SetParkCandidates({});
  for (const Member& one : members) {
    const bool is_on = IsOnFor(IndexOfNode(nodes_, one.record));
    if (!is_on || one.record.is_foreground || one.record.wants_pty) continue;
    if (one.state.rests_until != kNoTime) WakeBy(one.state.rests_until, now);
    if (!MayLeave(one, now)) continue;
    Time from = one.state.here_since + LeastRun(one.state, rule);
    if (one.is_on_trial(rule)) from = std::max(from, TrialEnd(one.view, rule, now));
    const Bytes content = ContentOf(one.record, one.state);
    const Duration missing = LeastBudget(content, rule) - time_sharing::BudgetLeft(one.view, rule);
    if (one.view.is_settled && missing > Duration(0)) {
      if (!rule.at_most || *rule.at_most <= 0) continue;
      const double wait = static_cast<double>(missing.count()) / *rule.at_most;
      from =
          std::max(from, AddSaturating(now, Duration(static_cast<std::int64_t>(wait)) + std::chrono::milliseconds(1)));
    }
    WakeBy(from, now);
    if (from <= now)
      candidates.push_back({one.record.id, std::llround(1000 * time_sharing::WeightOf(one.view, rule)), content});
  }
  scheduler_.SetParkCandidates(std::move(candidates));
}

void TimeSharer::Park(const Parking& parking, Time now) {
  Leave(jobs_.live().at(parking.job), members_.at(parking.job), parking.newcomer, now);
}

// --- Trials of sweeps -----------------------------------------------------------------------------------------------

Status TimeSharer::SetAsideUntilPromoted(JobRecord& record, Time now) {
  const auto at = members_.find(record.id);
  if (Find(record) == nullptr) return FailedPrecondition("it did not start as a job that can be parked");
  Displacement& state = at->second;
  const bool is_steady = record.state == JobState::kRunning && record.stop_intent == StopIntent::kNone;
  if (is_steady && state.set_aside == SetAside::kPromoted) {  // It was promoted, and has not returned yet.
    state.set_aside = SetAside::kUntilPromoted;
    state.idle_since = kNoTime;
    state.failure.clear();
    Keep(record, state);
    return {};
  }
  if (!is_steady || state.presence != Presence::kHere)
    return FailedPrecondition("it was not running on its GPUs at that moment");
  if (state.has_report && !state.can_park)
    return FailedPrecondition(state.why.empty() ? "its node cannot park it" : state.why);
  // Room for another trial must be left. Otherwise none would start, and so none would ever be promoted.
  const NodeUsage& node = scheduler_.node(IndexOfNode(nodes_, record));
  const Bytes content = ContentOf(record, state);
  const Bytes room = node.capacity.memory - node.memory_claimed - record.request.memory;
  if (content > room)
    return FailedPrecondition("its GPUs' memory of " + CompactSize(content) + " does not fit into the host memory: " +
                              CompactSize(std::max(room, Bytes(0))) + " are free beside another trial");
  // Others need host memory, too: for their jobs, and to be parked.
  const Bytes most = Bytes(node.capacity.memory.count() / 2);
  Bytes taken{0};
  for (const auto& [job, other] : members_) {
    const JobRecord* of = jobs_.Find(job);
    if (of != nullptr && of->node == record.node && other.set_aside != SetAside::kNo) taken += ContentOf(*of, other);
  }
  if (taken + content > most)
    return FailedPrecondition("its GPUs' memory of " + CompactSize(content) +
                              " exceeds what paused trials may use of the host memory: they have " +
                              CompactSize(taken) + " of " + CompactSize(most) + ", half of the node's memory");
  state.by = JobId();
  // Others may settle in its place, and its sweep owes it nothing: it settles again when it has returned.
  state.settled_at = kNoTime;
  state.lost_settled = Duration(0);
  state.set_aside = SetAside::kUntilPromoted;
  state.failure.clear();
  scheduler_.SetDisplaced(record.id, record.gpus, MemoryWithContent(record, state), true);
  StartLeaving(record, state, "parked by its sweep", now);
  return {};
}

void TimeSharer::Promote(JobRecord& record, Time now) {
  if (!IsSetAside(record)) return;
  Displacement& state = members_.at(record.id);
  state.set_aside = SetAside::kPromoted;
  effects_.Note(record.id, "promoted by its sweep", now);
  Keep(record, state);
  effects_.RequestPlan();
}

bool TimeSharer::IsSetAside(const JobRecord& record) const {
  const Displacement* state = Find(record);
  return state != nullptr && state->set_aside == SetAside::kUntilPromoted;
}

// --- Steps ----------------------------------------------------------------------------------------------------------

void TimeSharer::Command(const JobRecord& record, Displacement& state, Time now) {
  state.repeats_at = kNoTime;
  state.commanded_at = now;
  const bool leaves = state.presence == Presence::kLeaving || state.presence == Presence::kAway;
  effects_.Send(DisplaceCommand{record.id, record.attempt, leaves, leaves ? GpuSet() : record.gpus, record.node});
}

// A node that refuses for good is not asked all the time.
void TimeSharer::Repeat(const JobRecord& record, Displacement& state, const std::string& why, Time now) {
  const Time next = state.commanded_at + kRepeatsAfter;
  if (why.empty() || state.commanded_at == kNoTime || next <= now) return Command(record, state, now);
  state.repeats_at = next;
  effects_.RequestPlan();
}

void TimeSharer::SetReason(JobRecord& record, Displacement& state, const std::string& why, Time now) {
  record.reason = why;
  effects_.Note(record.id, record.reason, now);
  effects_.Persist(record);
  Keep(record, state);
  effects_.Announce(record);
}

void TimeSharer::Leave(JobRecord& record, Displacement& state, JobId by, Time now) {
  state.by = by;
  StartLeaving(record, state, "parked for " + TextOf(by), now);
}

void TimeSharer::StartLeaving(JobRecord& record, Displacement& state, const std::string& why, Time now) {
  state.presence = Presence::kLeaving;
  state.gpus = record.gpus;
  state.displaced_at = now;
  state.old_why = std::exchange(state.why, "");
  WakeBy(now + LeavesWithin(record, state), now);
  SetReason(record, state, why, now);
  Command(record, state, now);
}

// The time that the job has lost so far does not count.
void TimeSharer::ExtendLimit(JobRecord& record, Displacement& state, Time now) {
  // After the clock was set back, the job seems to have lost less than before.
  const Duration more = std::max(ViewOf(record, state, now).lost - state.in_limit, Duration(0));
  state.in_limit += more;
  if (record.time_limit <= Duration(0)) return;
  state.extended = more + LimitExtensionOf(record);
  state.limit = record.time_limit += more;
  scheduler_.SetKnownEnd(record.id, Deadline(record));
  effects_.Send(record, TimeLimitCommand{record.id, Deadline(record), ""});
}

// Its time without GPUs ends. Its time limit continues where it was.
void TimeSharer::EndLoss(JobRecord& record, Displacement& state, Time now) {
  const time_sharing::JobView view = ViewOf(record, state, now);
  ExtendLimit(record, state, now);
  EndSetAside(state, now);
  if (state.by.is_set()) totals_.lost += view.lost - state.lost;
  state.lost = view.lost;
  state.lost_settled = view.lost_settled;
  state.displaced_at = kNoTime;
  state.presence = Presence::kHere;
  state.repeats_at = kNoTime;
  if (record.state == JobState::kRunning) record.reason = record.start_reason;
  effects_.Persist(record);
  Keep(record, state);
  effects_.Announce(record);
  effects_.RequestPlan();
}

void TimeSharer::Stay(JobRecord& record, Displacement& state, const std::string& why, Time now) {
  scheduler_.SetDisplaced(record.id, record.gpus, record.request.memory, false);
  state.rests_until = now + kRestAfterFailure;
  state.failure = why;
  effects_.Note(record.id, "keeps its GPUs: it could not be parked: " + why, now);
  EndLoss(record, state, now);
}

// Whether it was parked meanwhile is not known. So it is told to return to the GPUs that it has.
void TimeSharer::StopLeaving(JobRecord& record, Displacement& state, const std::string& why, Time now) {
  effects_.Note(record.id, "keeps its GPUs: it could not be parked: " + why, now);
  state.failure = why;
  state.rests_when_back = true;
  budgets_.CountUsage(record, now);
  Return(record, state, record.gpus, now);
}

void TimeSharer::GoAway(JobRecord& record, Displacement& state, Time now) {
  budgets_.CountUsage(record, now);
  state.presence = Presence::kAway;
  totals_.parks += state.set_aside == SetAside::kNo;
  state.park_time = now - state.displaced_at;
  state.idle_since = kNoTime;
  record.gpus = record.gpus_used = GpuSet();
  record.gpus_since = now;
  MeasureAnew(record.progress);
  state.repeats_at = kNoTime;
  scheduler_.SetDisplaced(record.id, {}, MemoryWithContent(record, state), true);
  if (state.set_aside != SetAside::kNo) feed_.SetAside(record.id, true);
  // Its node enforces none while it has no GPUs (LimitOnNode).
  if (record.time_limit > Duration(0)) {
    scheduler_.SetKnownEnd(record.id, kNever);
    effects_.Send(record, TimeLimitCommand{record.id, kNever, ""});
  }
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
  record.gpus = record.gpus_used = gpus;
  record.gpus_since = now;
  state.returning_since = now;
  record.gpu_model = nodes_.ModelOf(record);
  // Its content stays in the host's memory until it is back.
  scheduler_.SetDisplaced(record.id, gpus, MemoryWithContent(record, state), false);
  feed_.SetAside(record.id, false);
  EndSetAside(state, now);
  ExtendLimit(record, state, now);
  effects_.Note(record.id, "returns to " + GpusText(gpus), now);
  effects_.Persist(record);
  Keep(record, state);
  Command(record, state, now);
  effects_.Announce(record);
}

void TimeSharer::Arrive(JobRecord& record, Displacement& state, Time now) {
  const Time since = std::exchange(state.returning_since, kNoTime);
  const bool was_given_up = std::exchange(state.rests_when_back, false);  // Perhaps nothing was copied.
  if (since != kNoTime && !was_given_up) state.return_time = now - since;
  state.here_since = now;
  state.rests_until = was_given_up ? now + kRestAfterFailure : kNoTime;
  scheduler_.SetDisplaced(record.id, record.gpus, record.request.memory, false);
  EndLoss(record, state, now);
}

void TimeSharer::OnPresence(const PresenceReport& report, Time now, const std::string& node) {
  const auto found = jobs_.live().find(report.job);
  if (found == jobs_.live().end()) return;
  JobRecord& record = found->second;
  if (record.attempt != report.attempt || !IsActive(record.state) || record.node != node || !record.gang.empty())
    return;
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
      if (is_away || (is_here && report.gpus != record.gpus)) Repeat(record, state, report.why, now);
      else state.repeats_at = kNoTime;
      break;
    case Presence::kLeaving:
      if (is_away) {
        GoAway(record, state, now);
      } else if (is_here && !report.why.empty() && report.why != state.old_why) {
        Stay(record, state, report.why, now);
      } else if (is_here) {
        // It may have been sent before the command arrived, also with the reason of an earlier failure.
        state.old_why.clear();
        Command(record, state, now);
      } else if (report.presence == Presence::kLeaving && !report.why.empty()) {
        StopLeaving(record, state, report.why, now);
      }
      break;
    case Presence::kAway:
      if (is_away) state.repeats_at = kNoTime;
      else Repeat(record, state, report.why, now);
      break;
    case Presence::kReturning:
      if (is_here && report.gpus == record.gpus) Arrive(record, state, now);
      else if (is_here || is_away || !report.why.empty()) Repeat(record, state, report.why, now);
      break;
  }
}

}  // namespace divvy
