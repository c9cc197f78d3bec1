#include "control/jobs/job_commands.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "control/books/progress.h"
#include "control/books/record_parts.h"
#include "engine/message_text.h"

namespace divvy {

Result<std::string> JobCommands::Cancel(JobId id, int signal, Duration grace, const std::string& reason,
                                        const Caller& caller, Time now) {
  DIVVY_TRY(JobRecord * record, access_.FindForAction(id, caller, "cancel"));
  const Reason why = reason.empty() ? "cancelled by " + CallerName(caller) : reason;
  if (record->array_count > 0) {
    // Cancels running elements first. Each of them may end the array, so their ids are collected before.
    const std::vector<JobId> elements = jobs_.ElementsOf(*record);
    record->array_cancelled += static_cast<std::uint32_t>(record->array_waiting.size());
    record->array_waiting = IndexRanges();
    feed_.Remove(id);
    record->state = JobState::kRunning;
    record->is_held = false;
    effects_.Persist(*record);
    lifecycle_.ResolveDependents(JobRecord(*record), now);
    for (JobId element : elements) static_cast<void>(Cancel(element, signal, grace, why, caller, now));
    lifecycle_.FinishArrayIfDone(id, now);
    effects_.RequestPlan();
    return std::string(elements.empty()
                           ? "cancelled"
                           : "stopping " + Plural(static_cast<std::int64_t>(elements.size()), "running element"));
  }
  if (IsWaiting(record->state)) {
    lifecycle_.Finish(*record, JobState::kCancelled, why, now);
    return std::string("cancelled");
  }
  const bool is_first = record->stop_intent != StopIntent::kCancel;
  record->stop_intent = StopIntent::kCancel;
  record->state = JobState::kStopping;
  record->reason = why;
  effects_.Persist(*record);
  if (is_first) effects_.Note(id, why, now);
  effects_.Send(*record, StopCommand{id, signal, grace, ""});
  effects_.Announce(*record);
  return std::string("stopping");
}

std::vector<JobId> JobCommands::WaitingElementsOf(const JobRecord& record) const {
  if (record.array_count == 0 || IsWaiting(record.state)) return {};
  std::vector<JobId> elements = jobs_.ElementsOf(record);
  std::erase_if(elements, [this](JobId element) { return !IsWaiting(jobs_.Find(element)->state); });
  return elements;
}

Result<std::string> JobCommands::Hold(JobId id, const Caller& caller, Time now) {
  DIVVY_TRY(JobRecord * record, access_.FindForAction(id, caller, "hold"));
  if (const std::vector<JobId> elements = WaitingElementsOf(*record); !elements.empty()) {
    const bool are_held = std::ranges::all_of(elements, [this](JobId one) { return jobs_.Find(one)->is_held; });
    for (const JobId element : elements) DIVVY_CHECK(Hold(element, caller, now));
    return std::string(are_held ? "was already held" : "held");
  }
  if (!IsWaiting(record->state)) return WrongState(*record, "held", "divvy requeue puts it back into the queue");
  if (record->is_held) return std::string("was already held");
  record->is_held = true;
  record->state = JobState::kHeld;
  record->reason = "held by " + CallerName(caller) + ": divvy release " + ToString(id);
  effects_.Note(id, "held by " + CallerName(caller), now);
  effects_.Persist(*record);
  feed_.Put(*record);
  effects_.Announce(*record);
  return std::string("held");
}

Result<std::string> JobCommands::Release(JobId id, Time at, const Caller& caller, Time now) {
  DIVVY_TRY(JobRecord * record, access_.FindForAction(id, caller, "release"));
  if (const std::vector<JobId> elements = WaitingElementsOf(*record); !elements.empty()) {
    const bool is_any_held = std::ranges::any_of(elements, [this](JobId one) { return jobs_.Find(one)->is_held; });
    for (const JobId element : elements) DIVVY_CHECK(Release(element, at, caller, now));
    return std::string(is_any_held || at != kNoTime ? "released" : "was not held");
  }
  if (!IsWaiting(record->state)) return WrongState(*record, "released", "");
  if (!record->is_held && at == kNoTime) return std::string("was not held");
  record->is_held = false;
  record->state = JobState::kQueued;
  record->reason.clear();
  record->queued_at = record->waits_since = now;
  if (at != kNoTime) record->begin = at;
  effects_.Note(id, "released by " + CallerName(caller), now);
  effects_.Persist(*record);
  feed_.Put(*record);
  effects_.Announce(*record);
  return std::string("released");
}

Result<std::string> JobCommands::Requeue(JobId id, RequeueAs as, const Caller& caller, Time now) {
  const bool holds = as == RequeueAs::kHeld;
  DIVVY_TRY(JobRecord * record, access_.FindForAction(id, caller, "requeue"));
  if (IsWaiting(record->state) && holds) return Hold(id, caller, now);
  if (IsWaiting(record->state)) return std::string("is already in the queue");
  DIVVY_CHECK(CheckCanQueueAgain(*record));
  if (record->stop_intent == StopIntent::kCancel) return WrongState(*record, "requeued", "it was cancelled");
  record->stop_intent = StopIntent::kRequeue;
  record->is_held = holds;
  record->state = JobState::kStopping;
  record->reason = QueuedAgainBy(caller, id, as);
  effects_.Persist(*record);
  effects_.Send(*record, StopCommand{id, 0, Duration(-1), ""});
  effects_.Announce(*record);
  return std::string(holds ? "stopping, then held" : "stopping, then queued again");
}

Result<std::string> JobCommands::SetPaused(JobId id, bool is_paused, const Caller& caller, Time now) {
  DIVVY_TRY(JobRecord * record, access_.FindForAction(id, caller, is_paused ? "pause" : "resume"));
  const JobState from = is_paused ? JobState::kRunning : JobState::kPaused;
  if (record->array_count > 0 || record->state != from) {
    return WrongState(*record, is_paused ? "paused" : "resumed",
                      is_paused && IsWaiting(record->state) ? "divvy hold keeps it from starting" : "");
  }
  if (const std::string parked = time_sharer_.ReasonOf(*record, now); !parked.empty()) {
    return FailedPrecondition("job " + DisplayId(*record) + " is " + parked +
                              "; pause it when it has its GPUs again, or cancel it");
  }
  record->state = is_paused ? JobState::kPaused : JobState::kRunning;
  MeasureAnew(record->progress);
  if (is_paused) record->progress.was_paused = true;
  record->reason =
      is_paused ? "paused by " + CallerName(caller) + (record->request.is_portioned() ? "" : "; it keeps its GPUs")
                : record->start_reason;
  effects_.Note(id, is_paused ? "paused by " + CallerName(caller) : "resumed by " + CallerName(caller), now);
  effects_.Persist(*record);
  effects_.Send(*record, PauseCommand{id, is_paused, ""});
  effects_.Announce(*record);
  if (is_paused && record->request.is_portioned())
    return "paused; the memory of its GPU fraction is moved to the host where possible, until divvy resume";
  return std::string(is_paused ? "paused; it keeps its GPUs and their memory" : "running again");
}

Result<std::string> JobCommands::Signal(JobId id, int signal, SignalReach reach, const Caller& caller) {
  DIVVY_TRY(JobRecord * record, access_.FindForAction(id, caller, "signal"));
  if (record->array_count > 0) {
    const std::vector<JobId> elements = jobs_.ElementsOf(*record);
    std::int64_t told = 0;
    std::optional<Error> cannot;
    for (JobId element : elements) {
      const auto sent = Signal(element, signal, reach, caller);
      told += sent ? 1 : 0;
      if (!sent && sent.error().code == ErrorCode::kUnreachable) cannot = sent.error();
    }
    if (told == 0 && cannot) return *cannot;
    return "sent to " + Plural(told, "running element");
  }
  if (!IsActive(record->state)) return WrongState(*record, "signalled", "it has not started");
  // A job in the foreground has no batch script, so signals for all other processes go to all of its processes.
  if (record->is_foreground && reach == SignalReach::kOthers) reach = SignalReach::kTree;
  std::string absence;
  for (const NodeAllocation& allocation : AllocationsOf(*record)) {
    const std::string here = nodes_.DisconnectReason(allocation.node);
    if (absence.empty()) absence = here;
    if (!nodes_.IsAccounted(allocation.node))  // Signals for such a node are not kept.
      return Unreachable("it cannot be signalled: " + here + "; try again when divvy nodes shows it up");
  }
  effects_.Send(*record, SignalCommand{id, signal, reach, ""});
  if (absence.empty()) return std::string("sent");
  return absence + "; the signal is delivered when it reconnects, and lost if its agent was restarted meanwhile";
}

Result<std::string> JobCommands::SetGroupLimit(const std::string& group, int limit, const Caller& caller, Time now) {
  if (limit < 0) return InvalidArgument("a group's limit is 0 (none) or more");
  const std::string at_most =
      limit == 0 ? std::string("no limit any more") : "at most " + std::to_string(limit) + " at once";
  if (const auto id = ParseInteger(group); id && *id > 0) {
    JobChanges changes;
    changes.array_at_once = limit;
    const JobRecord* array = jobs_.Find(JobId(static_cast<std::uint64_t>(*id)));
    if (array == nullptr || array->array_count == 0) return NotFound("there is no queued or running array " + group);
    const auto done = updates_.Update(array->id, changes, caller, now, [](JobId) { return std::nullopt; });
    if (!done) return done.error();
    return at_most;
  }
  std::set<std::string> owners;
  for (const auto& [job, record] : jobs_.live()) {
    const bool is_meant = caller.is_admin || record.user.uid == caller.user.uid;
    if (is_meant && record.group == group) owners.insert(record.user.name);
  }
  if (owners.empty()) {
    return NotFound("no queued or running job " + std::string(caller.is_admin ? "" : "of yours ") + "is in group '" +
                    group + "'; divvy queue --group NAME lists those of a group");
  }
  for (const std::string& owner : owners) feed_.SetGroupLimit(GroupNameOf(group, owner), limit);
  effects_.RequestPlan();
  if (owners.size() == 1) return at_most;
  return at_most + ", for each of " + AndList(std::vector<std::string>(owners.begin(), owners.end()));
}

}  // namespace divvy
