// Events that happen without a command: processes start and end, GPUs change.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "control/books/settings_text.h"
#include "control/controller/controller.h"
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

}  // namespace

namespace {

/// Returns whether nothing of the job can still run on its node.
bool IsWithItsMachine(Controller::Vanished how) {
  return how == Controller::Vanished::kFenced || how == Controller::Vanished::kGone;
}

std::string_view MachinesEnd(Controller::Vanished how) {
  return how == Controller::Vanished::kGone ? " is gone for good" : " was disconnected and has stopped its jobs";
}

}  // namespace

void Controller::OnDelayed(JobId job, std::uint32_t attempt, const std::string& why, const std::string& node) {
  const auto found = jobs_.live().find(job);
  if (found == jobs_.live().end() || found->second.attempt != attempt || found->second.state != JobState::kStarting)
    return;
  JobRecord& record = found->second;
  if (!IsOn(record, node)) return;
  // Not persisted: the node reports it again after a restart of the controller.
  const std::string where = node.empty() ? "the controller's machine " : "node " + node + " ";
  const Reason reason = record.gang.empty() ? why : where + why;
  if (std::exchange(record.reason, reason) != reason) effects_.Announce(record);
}

std::pair<JobState, Reason> Controller::Judge(const JobRecord& record, const Exit& exit) {
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

void Controller::OnStarted(JobId job, std::uint32_t attempt, Time at, const std::string& node) {
  const auto found = jobs_.live().find(job);
  if (found == jobs_.live().end() || found->second.attempt != attempt || found->second.state != JobState::kStarting)
    return;
  // On the other nodes, nothing of the user's starts at this moment.
  if (found->second.node != node || (!found->second.gang.empty() && !found->second.was_let_go)) return;
  // Not persisted at once: a restart learns it from the run record, and this saves one commit per job, a fifth of its
  // cost.
  found->second.state = JobState::kRunning;
  found->second.started = at;
  found->second.reason = found->second.start_reason;
  if (CutToDeadline(found->second)) {
    scheduler_.SetKnownEnd(job, Deadline(found->second));
    effects_.Send(found->second, TimeLimitOrder{job, Deadline(found->second), ""});
  }
  unkept_starts_.insert_or_assign(job, attempt);
  retries_.OnStarted(job);
  effects_.Announce(found->second);
}

// Most jobs have ended by then. For the others, a restart then knows that they run even while their node is
// unreachable.
void Controller::KeepStarts(Time now) {
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

void Controller::OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at, Time now,
                          const std::string& node) {
  effects_.Send(ForgetOrder{job, attempt, node});
  const auto found = jobs_.live().find(job);
  if (found == jobs_.live().end() || found->second.attempt != attempt || !IsActive(found->second.state)) return;
  JobRecord& record = found->second;
  if (record.gang.empty() && record.node != node) return;
  // It is no refusal if something has started, or if another node already reported why the gang ends.
  const bool is_first = std::ranges::none_of(record.gang, [](const Seat& seat) { return seat.exit.has_value(); });
  if (IsMachinesFault(exit) && record.state == JobState::kStarting && is_first) OnRefusal(record, node, exit, now);
  if (IsForWantOfRoom(exit) && record.state == JobState::kStarting && is_first) OnNoRoom(record, node, exit);
  if (!record.gang.empty()) {
    if (gangs_.EndSeat(record, node, exit, at, now)) EndRun(record, now);
    return;
  }
  record.exit = exit;
  record.ended = std::max(at, record.started);
  // It never ran; it only waited for what was missing.
  if (record.state == JobState::kStarting && !exit.failure.empty()) record.started = record.ended;
  EndRun(record, now);
}

void Controller::EndRun(JobRecord& record, Time now) {
  const Exit exit = *record.exit;
  scheduler_.Finish(record.id);
  fractions_.Loosen(record);
  effects_.RequestPlan();
  teams_.budgets().CountUsage(record, record.ended);
  if (exit.is_known && exit.failure.empty() && !WasTakenBack(record))
    predictions_.LearnRunTime(record, record.ended - record.started);
  predictions_.LearnSpeed(record,
                          record.stop_intent == StopIntent::kNone && Judge(record, exit).first == JobState::kSucceeded);
  const auto [state, reason] = Judge(record, exit);
  if (RunsAgain(record, state, exit, now)) return;
  Finish(record, state, reason, now);
}

// Ends a gang's part, and decides by `how` whether the job may start again.
bool Controller::VanishSeat(JobRecord& record, const std::string& node, Vanished how, Time now) {
  static constexpr std::array<std::string_view, 5> kHow = {
      "it was never started there", "its processes are gone and their exit status is unknown", "the node was rebooted",
      "the node was disconnected and has stopped its jobs", "the node is gone for good"};
  const bool begins_anew = how == Vanished::kNeverStarted || (IsWithItsMachine(how) && !record.is_run_once) ||
                           (how == Vanished::kRebooted && record.requeues_after_reboot);
  Exit exit;
  exit.code = 1;
  exit.is_known = false;
  exit.failure = kHow[static_cast<std::size_t>(how)];
  if (begins_anew && record.stop_intent == StopIntent::kNone && !record.is_foreground) {
    record.stop_intent = StopIntent::kRequeue;
    const std::string where = node.empty() ? "the controller's machine" : "node " + node;
    record.reason =
        "queued again: " + where + (IsWithItsMachine(how) ? std::string(MachinesEnd(how)) : ": " + exit.failure);
  }
  return gangs_.EndSeat(record, node, exit, now, now);
}

void Controller::OnVanished(JobId job, std::uint32_t attempt, Vanished how, Time now, const std::string& node) {
  effects_.Send(ForgetOrder{job, attempt, node});
  const auto found = jobs_.live().find(job);
  if (found == jobs_.live().end() || found->second.attempt != attempt || !IsActive(found->second.state)) return;
  JobRecord& record = found->second;
  if (!record.gang.empty()) {
    if (VanishSeat(record, node, how, now)) EndRun(record, now);
    return;
  }
  if (record.node != node) return;
  scheduler_.Finish(job);
  fractions_.Loosen(record);
  effects_.RequestPlan();
  // If the store says that a job ran, there is a run record until its end is known. A missing run record means that its
  // end was reported to another store.
  const bool has_run = record.state != JobState::kStarting && record.stop_intent == StopIntent::kNone;
  if (how == Vanished::kNeverStarted && has_run) how = Vanished::kUnseen;
  const bool never_ran = how == Vanished::kNeverStarted;
  const bool was_rebooted = how == Vanished::kRebooted;
  if (!never_ran) teams_.budgets().CountUsage(record, now);
  if (record.stop_intent == StopIntent::kCancel) {
    Finish(record, JobState::kCancelled, record.reason, now);
  } else if (never_ran) {
    // Applies to foreground jobs too: the launch waits for the caller, which may reconnect its streams.
    QueueAgain(record, kNoTime, "the daemon was restarted before it could start", now);
  } else if (IsWithItsMachine(how) && !record.is_foreground && !record.is_run_once) {
    ++record.restarts;
    effects_.KeepRun(record, JobState::kLost, now);
    QueueAgain(record, kNoTime, "queued again: node " + node + std::string(MachinesEnd(how)), now);
  } else if ((was_rebooted && record.requeues_after_reboot) || record.stop_intent == StopIntent::kRequeue) {
    ++record.restarts;
    effects_.KeepRun(record, was_rebooted ? JobState::kFailed : JobState::kCancelled, now);
    QueueAgain(record, kNoTime, was_rebooted ? "queued again after a reboot" : record.reason, now);
  } else {
    Exit exit;
    exit.is_known = false;
    record.exit = exit;
    record.ended = now;
    Finish(record, was_rebooted ? JobState::kFailed : JobState::kLost,
           was_rebooted            ? "the node was rebooted while it ran"
           : IsWithItsMachine(how) ? "its node" + std::string(MachinesEnd(how))
                                   : "its processes are gone and their exit status is unknown",
           now);
  }
}

bool Controller::RunsAgain(JobRecord& record, JobState outcome, const Exit& exit, Time now) {
  if (record.stop_intent == StopIntent::kRequeue) {
    ++record.restarts;
    effects_.KeepRun(record, exit.is_known ? JobState::kCancelled : JobState::kLost, record.ended);
    const Duration delay = IsForWantOfRoom(exit) ? retries_.RoomDelay(record.id) : retries_.BorrowDelay(record, now);
    QueueAgain(record, delay > Duration(0) ? AddSaturating(now, delay) : kNoTime, record.reason, now);
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
  QueueAgain(record, AddSaturating(now, delay),
             "try " + std::to_string(record.retries_used) + " of " + std::to_string(record.retries + 1) + " ended" +
                 how + "; tries again after " + Compact(delay),
             now);
  return true;
}

void Controller::QueueAgain(JobRecord& record, Time begin, Reason reason, Time now) {
  effects_.Note(record.id, reason, now);
  // A preempted job loses its progress, but not its queue position.
  if (!WasTakenBack(record)) record.queued_at = now;
  if (record.state != JobState::kStarting) record.waits_since = now;  // Otherwise it has not run.
  record.ended = kNoTime;
  record.stop_intent = StopIntent::kNone;
  record.state = record.is_held ? JobState::kHeld : JobState::kQueued;
  record.gpus = GpuSet();
  record.node.clear();
  record.gang.clear();
  record.was_let_go = false;
  ForgetResizes(record);
  record.begin = begin;
  RestoreLimit(record);
  record.reason = std::move(reason);
  effects_.Persist(record);
  feed_.Put(record);
  effects_.Announce(record);
}

void Controller::Finish(JobRecord& record, JobState state, Reason reason, Time now) {
  const JobId id = record.id;
  const JobId array = record.array;
  feed_.Remove(id);
  dependencies_.Index(record, false);
  record.state = state;
  record.reason = std::move(reason);
  record.stop_intent = StopIntent::kNone;
  ForgetResizes(record);
  if (record.ended == kNoTime) record.ended = now;
  effects_.Persist(record);
  effects_.Announce(record);

  JobRecord ended = std::move(record);
  jobs_.live().erase(id);
  predictions_.Forget(id);
  retries_.Forget(id);
  dependencies_.KeepOutcome(ended);
  if (array.is_set()) {
    if (const auto whole = jobs_.live().find(array); whole != jobs_.live().end()) {
      JobRecord& sum = whole->second;
      ++(state == JobState::kSucceeded   ? sum.array_succeeded
         : state == JobState::kCancelled ? sum.array_cancelled
                                         : sum.array_failed);
      if (ended.exit) sum.array_exit_code = std::max(sum.array_exit_code, ended.exit->code);
      effects_.Persist(sum);
    }
  }
  ResolveDependents(ended, now);
  effects_.ReportFinished(std::move(ended));
  effects_.RequestPlan();
  if (array.is_set()) FinishArrayIfDone(array, now);
}

void Controller::FinishArrayIfDone(JobId array, Time now) {
  const auto at = jobs_.live().find(array);
  if (at == jobs_.live().end() || !at->second.array_waiting.empty()) return;
  JobRecord& record = at->second;
  const std::uint32_t ended = record.array_succeeded + record.array_failed + record.array_cancelled;
  if (ended < record.array_count) return;
  Exit exit;
  exit.code = record.array_exit_code;
  record.exit = exit;
  record.ended = now;
  const std::string counts =
      std::to_string(record.array_succeeded) + " of " + std::to_string(record.array_count) + " elements succeeded";
  if (record.array_failed > 0) {
    Finish(record, JobState::kFailed, counts + ", " + std::to_string(record.array_failed) + " failed", now);
  } else if (record.array_cancelled > 0) {
    Finish(record, JobState::kCancelled, counts + ", " + std::to_string(record.array_cancelled) + " were cancelled",
           now);
  } else {
    Finish(record, JobState::kSucceeded, counts, now);
  }
}

}  // namespace divvy
