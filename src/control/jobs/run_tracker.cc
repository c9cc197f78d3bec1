#include "control/jobs/run_tracker.h"

#include <algorithm>
#include <utility>

#include "control/books/record_parts.h"
#include "model/exit_codes.h"
#include "model/reason_words.h"
#include "model/run_line.h"

namespace divvy {
namespace {

constexpr Duration kRetryDelayMost = std::chrono::hours(1);

std::string Compact(Duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
  if (seconds >= 2 * 86400) return std::to_string(seconds / 86400) + " d";
  if (seconds >= 2 * 3600) return std::to_string(seconds / 3600) + " h";
  if (seconds >= 120) return std::to_string(seconds / 60) + " min";
  return std::to_string(seconds) + " s";
}

/// For a gang that ran: returns whether a node other than the first lost its part. False if the first node could not
/// run the program.
bool LostAPart(const JobRecord& record) {
  if (record.gang.empty() || !record.was_let_go) return false;
  const std::optional<Exit>& first = record.gang.front().exit;
  return first && (first->failure.empty() || !first->is_known);
}

/// Returns whether nothing of the job can still run on its node.
bool IsWithItsMachine(RunTracker::Vanished how) {
  return how == RunTracker::Vanished::kFenced || how == RunTracker::Vanished::kGone;
}

std::string_view MachinesEnd(RunTracker::Vanished how) {
  return how == RunTracker::Vanished::kGone ? " is gone for good" : " was disconnected and has stopped its jobs";
}

/// After this many refusals, by several nodes or by one, the job fails.
constexpr int kMostRefusals = 3;
/// How long a node that refused a job gets no other.
constexpr Duration kRestAfterRefusal = std::chrono::seconds(30);

}  // namespace

// Members of an array start in index order.
JobId RunTracker::NextMember(JobId entry) {
  JobRecord& record = jobs_.live().at(entry);
  if (record.array_count == 0) return entry;
  const std::uint32_t ordinal = record.array_waiting.front();
  record.array_waiting.Erase(ordinal);
  return ElementId(entry, ordinal);
}

void RunTracker::Preempt(const Preemption& preemption, Time now) {
  JobRecord& record = jobs_.live().at(preemption.job);
  const JobRecord& preemptor = jobs_.live().at(preemption.preemptor);
  record.stop_intent = StopIntent::kRequeue;
  record.state = JobState::kStopping;
  record.reason = std::string(kPreempted) + DisplayId(preemptor) + " of " +
                  (preemptor.team.empty() ? preemptor.user.name : "team " + preemptor.team);
  if (record.is_preemptible_set && record.preemptible == Preemptible::kPause)
    record.reason += "; it restarts, because the GPU memory of a paused job cannot be kept elsewhere";
  effects_.Note(record.id, record.reason, now);
  effects_.Persist(record);
  effects_.Send(record, StopCommand{record.id, 0, feed_.policy().preemption.grace, ""});
  effects_.Announce(record);
}

void RunTracker::Start(const StartDecision& decision, JobId job, Time now) {
  JobRecord* record = &jobs_.live().at(decision.entry);
  const bool is_element = record->array_count > 0;
  if (is_element) {
    JobRecord& array = *record;
    JobRecord element = jobs_.NewElement(array, static_cast<std::uint32_t>(job.value() - array.id.value() - 1));
    element.dependencies.clear();
    record = &jobs_.live().emplace(element.id, std::move(element)).first->second;
    if (array.array_waiting.empty()) array.state = JobState::kRunning;
    effects_.Persist(array);
  }
  record->state = JobState::kStarting;
  record->node = nodes_.NodeName(decision.node);
  record->gpus = decision.gpus;
  record->gpu_parts = decision.share;
  record->gpu_slice = decision.slice;
  record->gang.clear();
  for (const NodeResources& place : decision.gang)
    record->gang.push_back({nodes_.NodeName(place.node), place.gpus, place.tasks, 0, std::nullopt, place.parts});
  record->was_let_go = false;
  // Without a setting of its own, the job uses the administrator's current one; the node uses it for this run.
  if (!record->is_preemptible_set) record->preemptible = feed_.PreemptibleOf(*record);
  record->pool_of_run = decision.pool;
  record->gpu_model = nodes_.ModelOf(*record);
  record->progress = Progress();
  record->started = now;
  if (CutToDeadline(*record)) scheduler_.SetKnownEnd(job, Deadline(*record));
  record->ended = kNoTime;
  record->exit.reset();
  record->start_reason = decision.reason;
  record->reason = decision.reason;
  ++record->attempt;
  ForgetResizes(*record);
  record->gpus_used = record->gpus;
  scheduler_.SetName(job, record->name);
  feed_.NoteStart(*record);
  const bool is_parkable = time_sharer_.NoteStart(*record, now);
  if (is_element) {
    effects_.Insert(*record, nullptr);
  } else {
    effects_.Persist(*record);
  }
  if (const auto whole = jobs_.live().find(record->array);
      whole != jobs_.live().end() && whole->second.start_reason.empty()) {
    whole->second.start_reason = record->start_reason;
    whole->second.started = now;
    effects_.Note(whole->first, std::string(kFirstElementStarted), now);
    effects_.Persist(whole->second);
  }
  gangs_.Launch(*record, is_parkable, now);
  effects_.Announce(*record);
}

void RunTracker::OnDelayed(JobId job, std::uint32_t attempt, const std::string& why, const std::string& node) {
  const auto found = jobs_.live().find(job);
  if (found == jobs_.live().end() || found->second.attempt != attempt || found->second.state != JobState::kStarting)
    return;
  JobRecord& record = found->second;
  if (!IsOn(record, node)) return;
  // The delay is not stored, because the node reports it again after a restart of the controller.
  const std::string where = node.empty() ? "the controller's machine " : "node " + node + " ";
  const Reason reason = record.gang.empty() ? why : where + why;
  if (std::exchange(record.reason, reason) != reason) effects_.Announce(record);
}

std::pair<JobState, Reason> RunTracker::Judge(const JobRecord& record, const Exit& exit) {
  if (record.stop_intent == StopIntent::kCancel) return {JobState::kCancelled, record.reason};
  if (!exit.is_known) return {JobState::kLost, "its supervisor was killed, so its exit status is unknown"};
  if (exit.hit_time_limit && record.full_limit >= Duration(0)) return {JobState::kTimedOut, Reason(kReachedDeadline)};
  if (exit.hit_time_limit) return {JobState::kTimedOut, "reached its time limit of " + Compact(record.time_limit)};
  if (!exit.failure.empty()) return {JobState::kFailed, exit.failure};
  if (exit.was_oom_killed)
    return {JobState::kFailed, std::string(kOutOfMemory) + ": it asked for " + CompactSize(record.request.memory)};
  if (exit.signal != 0) return {JobState::kFailed, "ended by signal " + std::to_string(exit.signal)};
  if (exit.code != 0) return {JobState::kFailed, "exit code " + std::to_string(exit.code)};
  return {JobState::kSucceeded, "exit code 0"};
}

void RunTracker::OnStarted(JobId job, std::uint32_t attempt, Time at, const std::string& node) {
  const auto found = jobs_.live().find(job);
  if (found == jobs_.live().end() || found->second.attempt != attempt || found->second.state != JobState::kStarting)
    return;
  // Only the first node of a multi-node job starts the user's program at this moment, so reports of the other nodes do
  // not count.
  if (found->second.node != node || (!found->second.gang.empty() && !found->second.was_let_go)) return;
  // The start is not stored at once: after a restart, the controller learns it from the run record. This saves one
  // commit per job, a fifth of the job's cost.
  found->second.state = JobState::kRunning;
  found->second.started = at;
  found->second.reason = found->second.start_reason;
  if (CutToDeadline(found->second)) {
    scheduler_.SetKnownEnd(job, Deadline(found->second));
    effects_.Send(found->second, TimeLimitCommand{job, Deadline(found->second), ""});
  }
  unkept_starts_.insert_or_assign(job, attempt);
  retries_.OnStarted(job);
  effects_.Announce(found->second);
}

// Writes the starts of running jobs to the store some seconds later, since most jobs have ended by then. After a
// restart the controller then knows that the others run, even while their node is unreachable.
void RunTracker::KeepStarts(Time now) {
  constexpr Duration kKeepAfter = std::chrono::seconds(10);
  if (unkept_starts_.empty()) return;
  if (next_starts_ == kNever) {
    next_starts_ = AddSaturating(now, kKeepAfter);
    effects_.WakeBy(next_starts_);
  }
  if (now < next_starts_) return;
  next_starts_ = kNever;
  for (const auto& [job, attempt] : std::exchange(unkept_starts_, {})) {
    const JobRecord* record = jobs_.Find(job);
    if (record != nullptr && record->attempt == attempt && record->state == JobState::kRunning)
      effects_.Persist(*record);
  }
}

void RunTracker::OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at, Time now,
                          const std::string& node) {
  effects_.Send(ForgetCommand{job, attempt, node});
  const auto found = jobs_.live().find(job);
  if (found == jobs_.live().end() || found->second.attempt != attempt || !IsActive(found->second.state)) return;
  JobRecord& record = found->second;
  if (record.gang.empty() && record.node != node) return;
  // A node's failure does not count as a refusal to start the job if a part of the job has started, or if another node
  // has already reported why the job ends.
  const bool is_first =
      std::ranges::none_of(record.gang, [](const NodeAllocation& allocation) { return allocation.exit.has_value(); });
  if (IsMachinesFault(exit) && record.state == JobState::kStarting && is_first) OnRefusal(record, node, exit, now);
  if (IsForWantOfRoom(exit) && record.state == JobState::kStarting && is_first) OnNoRoom(record, node, exit);
  if (!record.gang.empty()) {
    if (gangs_.OutlivesLoss(record, node, exit, PartLoss{.at = now})) return;
    if (gangs_.EndAllocation(record, node, exit, at, now)) EndRun(record, now);
    return;
  }
  record.exit = exit;
  record.ended = std::max(at, record.started);
  // The job never ran: it only waited for something that was missing, so its run time is zero.
  if (record.state == JobState::kStarting && !exit.failure.empty()) record.started = record.ended;
  EndRun(record, now);
}

void RunTracker::EndRun(JobRecord& record, Time now) {
  const Exit exit = *record.exit;
  scheduler_.Finish(record.id);
  fractions_.Loosen(record);
  effects_.RequestPlan();
  budgets_.CountUsage(record, record.ended);
  if (exit.is_known && exit.failure.empty() && !WasPreempted(record))
    predictions_.LearnRunTime(record, record.ended - record.started - time_sharer_.LostBy(record, record.ended));
  predictions_.LearnSpeed(record,
                          record.stop_intent == StopIntent::kNone && Judge(record, exit).first == JobState::kSucceeded);
  const auto [state, reason] = Judge(record, exit);
  if (RunsAgain(record, state, exit, now)) return;
  lifecycle_.Finish(record, state, reason, now);
}

// Ends the part of a multi-node job that ran on this node, and decides by `how` whether the job may start again.
bool RunTracker::VanishAllocation(JobRecord& record, const std::string& node, Vanished how, Time now) {
  static constexpr std::array<std::string_view, 5> kHow = {
      "it was never started there", "its processes are gone and their exit status is unknown", "the node was rebooted",
      "the node was disconnected and has stopped its jobs", "the node is gone for good"};
  const auto allocation = std::ranges::find(record.gang, node, &NodeAllocation::node);
  if (allocation == record.gang.end() || allocation->exit) return false;
  const bool begins_anew = (how == Vanished::kNeverStarted || (IsWithItsMachine(how) && !record.is_run_once) ||
                            (how == Vanished::kRebooted && record.requeues_after_reboot)) &&
                           !record.is_foreground;
  Exit exit;
  exit.code = 1;
  exit.is_known = false;
  exit.failure = kHow[static_cast<std::size_t>(how)];
  if (gangs_.OutlivesLoss(record, node, exit, PartLoss{.at = now, .requeues = begins_anew})) return false;
  if (begins_anew && record.stop_intent == StopIntent::kNone) {
    record.stop_intent = StopIntent::kRequeue;
    const std::string where = node.empty() ? "the controller's machine" : "node " + node;
    record.reason =
        "queued again: " + where + (IsWithItsMachine(how) ? std::string(MachinesEnd(how)) : ": " + exit.failure);
  }
  return gangs_.EndAllocation(record, node, exit, now, now);
}

void RunTracker::OnVanished(JobId job, std::uint32_t attempt, Vanished how, Time now, const std::string& node) {
  effects_.Send(ForgetCommand{job, attempt, node});
  const auto found = jobs_.live().find(job);
  if (found == jobs_.live().end() || found->second.attempt != attempt || !IsActive(found->second.state)) return;
  JobRecord& record = found->second;
  if (!record.gang.empty()) {
    if (VanishAllocation(record, node, how, now)) EndRun(record, now);
    return;
  }
  if (record.node != node) return;
  scheduler_.Finish(job);
  fractions_.Loosen(record);
  effects_.RequestPlan();
  // The node keeps a job's run record until the store has the job's end. If the store says that the job has started,
  // but the node has no record, its end was reported to another store, such as one that a backup has replaced since.
  const bool has_run = record.state != JobState::kStarting && record.stop_intent == StopIntent::kNone;
  if (how == Vanished::kNeverStarted && has_run) how = Vanished::kUnseen;
  const bool never_ran = how == Vanished::kNeverStarted;
  const bool was_rebooted = how == Vanished::kRebooted;
  if (!never_ran) budgets_.CountUsage(record, now);
  if (record.stop_intent == StopIntent::kCancel) {
    lifecycle_.Finish(record, JobState::kCancelled, record.reason, now);
  } else if (never_ran) {
    // Applies to foreground jobs too: the launch waits for the caller, which may reconnect its streams.
    lifecycle_.QueueAgain(record, kNoTime, "the daemon was restarted before it could start", now);
  } else if (IsWithItsMachine(how) && !record.is_foreground && !record.is_run_once) {
    ++record.restarts;
    effects_.KeepRun(record, JobState::kLost, now);
    lifecycle_.QueueAgain(record, kNoTime, "queued again: node " + node + std::string(MachinesEnd(how)), now);
  } else if ((was_rebooted && record.requeues_after_reboot) || record.stop_intent == StopIntent::kRequeue) {
    ++record.restarts;
    effects_.KeepRun(record, was_rebooted ? JobState::kFailed : JobState::kCancelled, now);
    lifecycle_.QueueAgain(record, kNoTime, was_rebooted ? "queued again after a reboot" : record.reason, now);
  } else {
    Exit exit;
    exit.is_known = false;
    record.exit = exit;
    record.ended = now;
    lifecycle_.Finish(record, was_rebooted ? JobState::kFailed : JobState::kLost,
                      was_rebooted            ? "the node was rebooted while it ran"
                      : IsWithItsMachine(how) ? "its node" + std::string(MachinesEnd(how))
                                              : "its processes are gone and their exit status is unknown",
                      now);
  }
}

bool RunTracker::RunsAgain(JobRecord& record, JobState outcome, const Exit& exit, Time now) {
  if (record.stop_intent == StopIntent::kRequeue) {
    ++record.restarts;
    effects_.KeepRun(record, exit.is_known ? JobState::kCancelled : JobState::kLost, record.ended);
    const Duration delay = IsForWantOfRoom(exit) ? retries_.RoomDelay(record.id) : retries_.BorrowDelay(record, now);
    lifecycle_.QueueAgain(record, delay > Duration(0) ? AddSaturating(now, delay) : kNoTime, record.reason, now);
    return true;
  }
  const bool may_retry = outcome == JobState::kFailed && !record.is_foreground &&
                         (exit.failure.empty() || LostAPart(record)) &&
                         record.retries_used < static_cast<std::uint32_t>(std::max(record.retries, 0));
  if (!may_retry) return false;
  Duration delay = record.retry_delay;
  for (std::uint32_t i = 0; i < record.retries_used && delay < kRetryDelayMost; ++i) delay *= 2;
  delay = std::min(delay, kRetryDelayMost);
  ++record.retries_used;
  ++record.restarts;
  const std::string how = !exit.failure.empty() ? ": " + exit.failure
                          : exit.signal != 0    ? " with signal " + std::to_string(exit.signal)
                                                : " with exit code " + std::to_string(exit.code);
  effects_.KeepRun(record, outcome, record.ended);
  // The first run counts as a try.
  lifecycle_.QueueAgain(record, AddSaturating(now, delay),
                        "try " + std::to_string(record.retries_used) + " of " + std::to_string(record.retries + 1) +
                            " ended" + how + "; tries again after " + Compact(delay),
                        now);
  return true;
}

void RunTracker::OnRefusal(JobRecord& record, const std::string& name, const Exit& exit, Time now) {
  const auto node = nodes_.IndexOf(name);
  if (!node) return;
  nodes_.Rest(*node,
              "it could not start job " + ToString(record.id) + " (" + exit.failure + ") and will be tried again soon",
              now + kRestAfterRefusal);
  // A job in the foreground fails at once, so that the user at the terminal learns the reason. Others are queued again.
  const bool may_wait = record.stop_intent == StopIntent::kNone && !record.is_foreground;
  if (!may_wait || retries_.CountRefusal(record.id) > kMostRefusals) return;
  record.stop_intent = StopIntent::kRequeue;
  record.reason = "queued again: " + nodes_.MachineText(*node) + " could not start it: " + exit.failure;
}

void RunTracker::OnNoRoom(JobRecord& record, const std::string& name, const Exit& exit) {
  const auto node = nodes_.IndexOf(name);
  // A job in the foreground fails at once, so that the user at the terminal learns the reason. Others are queued again.
  if (!node || record.is_foreground || record.stop_intent != StopIntent::kNone) return;
  retries_.CountRefusal(record.id);
  record.stop_intent = StopIntent::kRequeue;
  record.reason = "queued again: " + nodes_.MachineText(*node) + " could not free the GPUs for it: " + exit.failure;
}

void RunTracker::LoseRuns(const std::string& node, Vanished how, Time now) {
  for (const JobId job : nodes_.RunsOn(node)) OnVanished(job, jobs_.live().at(job).attempt, how, now, node);
}

void RunTracker::StopForDrain(NodeIndex node, Time now) {
  const std::string why = nodes_.WorkTextOf(node);
  for (const JobId job : nodes_.RunsOn(nodes_.NodeName(node))) {
    JobRecord& record = jobs_.live().at(job);
    if (record.stop_intent != StopIntent::kNone) continue;
    record.stop_intent = record.is_foreground || record.is_run_once ? StopIntent::kCancel : StopIntent::kRequeue;
    record.state = JobState::kStopping;
    const bool runs_again = record.stop_intent == StopIntent::kRequeue;
    record.reason = (runs_again ? "queued again: " : "") + why;
    effects_.Note(job, "stopped at the deadline: " + why, now);
    effects_.Persist(record);
    effects_.Send(record, StopCommand{job, 0, Duration(-1), ""});
    effects_.Announce(record);
  }
}

}  // namespace divvy
