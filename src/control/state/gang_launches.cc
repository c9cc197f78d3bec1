#include "control/state/gang_launches.h"

#include <algorithm>

#include "base/duration_text.h"
#include "control/books/record_parts.h"

namespace divvy {
namespace {

std::string WhereText(const NodeAllocation& allocation) {
  return allocation.node.empty() ? "the controller's machine" : "node " + allocation.node;
}

std::string HowText(const Exit& exit) {
  if (!exit.failure.empty()) return exit.failure;
  if (!exit.is_known) return "its processes are gone";
  if (exit.signal != 0) return "signal " + std::to_string(exit.signal);
  return "exit code " + std::to_string(exit.code);
}

/// Explains, from the end of that part, why the job cannot continue.
std::string AllocationFailure(const JobRecord& record, const NodeAllocation& allocation) {
  const bool is_head = &allocation == record.gang.data();
  return WhereText(allocation) +
         (!record.was_let_go                     ? " could not prepare its part: "
          : is_head && allocation.exit->is_known ? ": "
                                                 : " lost its part: ") +
         HowText(*allocation.exit);
}

/// Makes the lost part the reason of the job's end.
void BlameAllocation(JobRecord& record, const NodeAllocation& allocation) {
  Exit& exit = *record.exit;
  exit.code = exit.code == 0 ? 1 : exit.code;
  exit.signal = 0;
  exit.is_known = true;
  exit.failure = AllocationFailure(record, allocation);
}

/// The part that a stale gang lost first; null if it is not stale.
const NodeAllocation* FirstLoss(const JobRecord& record) {
  const NodeAllocation* first = nullptr;
  for (const NodeAllocation& allocation : record.gang) {
    if (allocation.loss && (first == nullptr || allocation.loss->at < first->loss->at)) first = &allocation;
  }
  return first;
}

/// When a stale gang is ended; kNever if it is not stale or may always be.
Time StaleUntil(const JobRecord& record) {
  const NodeAllocation* lost = FirstLoss(record);
  if (lost == nullptr || record.stale_grace < Duration(0)) return kNever;
  return AddSaturating(lost->loss->at, record.stale_grace);
}

bool HasSucceeded(const Exit& exit) {
  return exit.is_known && exit.failure.empty() && exit.signal == 0 && exit.code == 0;
}

}  // namespace

void GangLaunches::Launch(const JobRecord& record, bool is_parkable, Time now) {
  if (record.gang.empty()) {
    effects_.Send(LaunchCommand{record, record.node, 0, is_parkable});
    return;
  }
  for (std::uint32_t allocation = 0; allocation < record.gang.size(); ++allocation) {
    const std::string& node = record.gang[allocation].node;
    effects_.Send(LaunchCommand{PartOn(record, node), node, allocation});
  }
  preparing_[record.id] = AddSaturating(now, kPrepareWithin);
}

void GangLaunches::OnPrepared(JobId job, std::uint32_t attempt, const std::string& node, std::uint16_t port, Time now) {
  const auto found = jobs_.live().find(job);
  if (found == jobs_.live().end() || found->second.attempt != attempt || !IsActive(found->second.state)) return;
  JobRecord& record = found->second;
  const auto allocation = std::ranges::find(record.gang, node, &NodeAllocation::node);
  if (allocation == record.gang.end()) return;
  allocation->port = port;
  if (record.was_let_go || record.state != JobState::kStarting) return;
  if (std::ranges::any_of(record.gang, [](const NodeAllocation& one) { return one.port == 0 || one.exit; })) return;
  record.was_let_go = true;
  preparing_.erase(job);
  effects_.Note(job, "all of its " + std::to_string(record.gang.size()) + " nodes are ready", now);
  effects_.Persist(record);
  LetGo(record);
}

void GangLaunches::RepeatGo(const std::string& node) const {
  for (const auto& [id, record] : jobs_.live()) {
    if (record.was_let_go && IsActive(record.state) && IsOn(record, node)) LetGo(record);
  }
}

void GangLaunches::LetGo(const JobRecord& record) const {
  if (record.gang.empty()) return;
  std::vector<AllocationAddress> addresses;
  for (const NodeAllocation& allocation : record.gang) addresses.push_back({"", allocation.port});
  effects_.Send(record, GoCommand{record.id, record.attempt, std::move(addresses), ""});
}

Time GangLaunches::next_deadline() const {
  Time next = kNever;
  for (const auto* deadlines : {&preparing_, &stale_}) {
    for (const auto& [job, until] : *deadlines) next = std::min(next, until);
  }
  return next;
}

void GangLaunches::NoteRestored(const JobRecord& record) {
  if (record.gang.empty()) return;
  if (!record.was_let_go) preparing_[record.id] = kNoTime;
  if (const Time until = StaleUntil(record); until != kNever) stale_[record.id] = until;
}

void GangLaunches::Forget(JobId job) {
  preparing_.erase(job);
  stale_.erase(job);
}

// Rolls back the launch of a multi-node job if a node has not prepared its part in time. Otherwise the other nodes and
// their GPUs would wait indefinitely.
void GangLaunches::Follow(Time now) {
  FollowStale(now);
  for (auto at = preparing_.begin(); at != preparing_.end();) {
    const auto [job, until] = *at;
    if (until > now) {
      effects_.WakeBy(until);
      ++at;
      continue;
    }
    at = preparing_.erase(at);
    const auto live = jobs_.live().find(job);
    if (live == jobs_.live().end()) continue;  // Its submission was withdrawn.
    JobRecord& record = live->second;
    if (record.was_let_go || record.state != JobState::kStarting) continue;
    const auto late = std::ranges::find_if(
        record.gang, [](const NodeAllocation& allocation) { return allocation.port == 0 && !allocation.exit; });
    if (late == record.gang.end()) continue;
    if (until == kNoTime) {
      UndoGang(record, "the controller was restarted while its nodes were preparing", now);
      continue;
    }
    UndoGang(record,
             WhereText(*late) + " did not prepare its part within " +
                 std::to_string(std::chrono::duration_cast<std::chrono::seconds>(kPrepareWithin).count()) + " s",
             now);
  }
}

void GangLaunches::UndoGang(JobRecord& record, const std::string& why, Time now) {
  Forget(record.id);
  if (record.stop_intent == StopIntent::kNone)
    record.stop_intent = record.is_foreground ? StopIntent::kCancel : StopIntent::kRequeue;
  record.state = JobState::kStopping;
  record.reason = why;
  effects_.Note(record.id, "rolled back on all nodes: " + why, now);
  effects_.Persist(record);
  effects_.Send(record, StopCommand{record.id, 0, Duration(0), ""});
  effects_.Announce(record);
}

bool GangLaunches::OutlivesLoss(JobRecord& record, const std::string& node, const Exit& exit, PartLoss loss) {
  const auto allocation = std::ranges::find(record.gang, node, &NodeAllocation::node);
  if (record.stale_grace == Duration(0) || !record.was_let_go || allocation == record.gang.end() || allocation->exit)
    return false;
  // The end of a part is not a loss if the job is being stopped already, or if the program has ended on the first node.
  const bool is_head = allocation == record.gang.begin();
  const bool is_ending = record.stop_intent != StopIntent::kNone || record.state == JobState::kStopping;
  if (is_ending || exit.hit_time_limit || (is_head && exit.is_known)) return false;
  const auto runs = [&](const NodeAllocation& one) { return &one != &*allocation && !one.exit; };
  if (std::ranges::none_of(record.gang, runs)) return false;
  allocation->exit = exit;
  allocation->exit->steps.clear();
  allocation->loss = loss;
  if (const Time until = StaleUntil(record); until != kNever) {
    stale_[record.id] = until;
    effects_.WakeBy(until);
  }
  effects_.Note(record.id, StaleReason(record), loss.at);
  effects_.Persist(record);
  effects_.Announce(record);
  return true;
}

Reason GangLaunches::StaleReason(const JobRecord& record) {
  const NodeAllocation* lost = FirstLoss(record);
  if (lost == nullptr) return "";
  const bool is_endless = record.stale_grace < Duration(0);
  return AllocationFailure(record, *lost) + "; its other parts continue" +
         (is_endless ? "" : " for " + DurationText(record.stale_grace) + " after that") + " (--stale-grace)";
}

void GangLaunches::ConcludeLoss(JobRecord& record) {
  const NodeAllocation& lost = *FirstLoss(record);
  record.exit = lost.exit;
  if (lost.loss->requeues) {
    record.stop_intent = StopIntent::kRequeue;
    record.reason = "queued again: " + AllocationFailure(record, lost);
  } else if (&lost != record.gang.data()) {
    BlameAllocation(record, lost);
  } else {
    record.exit->failure = AllocationFailure(record, lost);
  }
}

void GangLaunches::FollowStale(Time now) {
  while (!stale_.empty()) {
    const auto next = std::ranges::min_element(stale_, {}, &std::pair<const JobId, Time>::second);
    if (next->second > now) return effects_.WakeBy(next->second);
    const auto live = jobs_.live().find(next->first);
    stale_.erase(next);
    if (live == jobs_.live().end()) continue;
    JobRecord& record = live->second;
    if (record.state == JobState::kStopping || record.stop_intent != StopIntent::kNone) continue;
    ConcludeLoss(record);
    record.ended = std::max(now, record.started);
    effects_.Note(record.id, "its grace for lost parts has run out (--stale-grace)", now);
    StopOthers(record);
  }
}

bool GangLaunches::EndAllocation(JobRecord& record, const std::string& node, const Exit& exit, Time at, Time now) {
  const auto allocation = std::ranges::find(record.gang, node, &NodeAllocation::node);
  if (allocation == record.gang.end() || allocation->exit) return false;
  const bool is_head = allocation == record.gang.begin();
  Exit own = exit;
  own.steps.clear();
  allocation->exit = own;
  Forget(record.id);
  // The exit of the first node decides how the job ends, unless another part was lost before. Parts that end because of
  // that do not decide it, nor do parts that end by a stop or the time limit.
  const bool is_lost = !is_head && record.stop_intent == StopIntent::kNone && !exit.hit_time_limit;
  if (!record.exit) {
    record.ended = std::max(at, record.started);
    const bool succeeds = is_head && HasSucceeded(exit);
    if (record.stop_intent == StopIntent::kNone && FirstLoss(record) != nullptr && !exit.hit_time_limit && !succeeds) {
      ConcludeLoss(record);
    } else {
      record.exit = own;
      if (is_lost) BlameAllocation(record, *allocation);
      else if (is_head && !own.failure.empty()) record.exit->failure = AllocationFailure(record, *allocation);
      if (is_lost) effects_.Note(record.id, record.exit->failure, now);
    }
  } else if (is_head && record.exit->failure.empty()) {
    own.hit_time_limit = own.hit_time_limit || record.exit->hit_time_limit;
    record.exit = std::move(own);
  } else if (is_lost && !exit.failure.empty() && record.exit->failure.empty() && record.exit->code != 0 &&
             !record.exit->hit_time_limit) {
    // The first node noticed that tasks were missing before the node with these tasks reported the loss.
    record.exit->failure = AllocationFailure(record, *allocation);
    effects_.Note(record.id, record.exit->failure, now);
  }
  // Steps are listed where they were started; the other nodes have only parts of them.
  if (is_head) record.exit->steps = exit.steps;
  const bool is_over = std::ranges::all_of(record.gang, [](const NodeAllocation& one) { return one.exit.has_value(); });
  if (!is_over) StopOthers(record);
  return is_over;
}

void GangLaunches::StopOthers(JobRecord& record) {
  // If the job was being stopped, all its nodes have been sent the stop already. A node that may have missed it gets it
  // when it connects again.
  const bool were_told = record.state == JobState::kStopping;
  record.state = JobState::kStopping;
  if (record.stop_intent == StopIntent::kNone) record.reason = "its other nodes are being stopped";
  effects_.Persist(record);
  if (!were_told) effects_.Send(record, StopCommand{record.id, 0, Duration(-1), ""});
  effects_.Announce(record);
}

}  // namespace divvy
