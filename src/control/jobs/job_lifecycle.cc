#include "control/jobs/job_lifecycle.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "model/reason_words.h"

namespace divvy {

void JobLifecycle::Finish(JobRecord& record, JobState state, Reason reason, Time now) {
  const JobId id = record.id;
  const JobId array = record.array;
  feed_.Remove(id);
  dependencies_.Remove(record);
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
      ++(EndedWell(ended)                ? sum.array_succeeded
         : state == JobState::kCancelled ? sum.array_cancelled
                                         : sum.array_failed);
      if (ended.exit && !EndedWell(ended)) sum.array_exit_code = std::max(sum.array_exit_code, ended.exit->code);
      effects_.Persist(sum);
    }
  }
  ResolveDependents(ended, now);
  if (on_finished_) on_finished_(ended);
  effects_.ReportFinished(std::move(ended));
  effects_.RequestPlan();
  if (array.is_set()) FinishArrayIfDone(array, now);
}

void JobLifecycle::FinishArrayIfDone(JobId array, Time now) {
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

void JobLifecycle::QueueAgain(JobRecord& record, Time begin, Reason reason, Time now) {
  effects_.Note(record.id, reason, now);
  // A preempted job loses its progress, but not its queue position.
  if (!WasPreempted(record)) record.queued_at = now;
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

void JobLifecycle::ResolveDependents(const JobRecord& changed, Time now) {
  for (JobId id : dependencies_.AffectedBy(changed)) {
    const auto at = jobs_.live().find(id);
    if (at == jobs_.live().end()) continue;
    JobRecord& record = at->second;
    if (record.state != JobState::kQueued && record.state != JobState::kHeld) continue;
    DependencyOutlook outlook = dependencies_.DependencyOutlookOf(record);
    // The job needs any one of several dependencies, and one can no longer be met. The jobs of the others may all wait
    // for this job; then it can never start.
    if (!outlook.is_lost && !outlook.why.empty()) {
      const std::string cycle = dependencies_.FindCycle({}, id);
      if (!cycle.empty()) outlook = {true, outlook.why + ", and it would wait for itself: " + cycle};
    }
    if (outlook.is_lost && !record.keeps_waiting) {
      record.array_cancelled += static_cast<std::uint32_t>(record.array_waiting.size());
      record.array_waiting = IndexRanges();
      if (record.array_cancelled < record.array_count) {
        // The waiting elements of the array are removed from the queue. Elements with records of their own are not
        // affected.
        feed_.Remove(id);
        record.state = JobState::kRunning;
        record.is_held = false;
        effects_.Note(id, "its dependency can never be met: " + outlook.why, now);
        effects_.Persist(record);
        FinishArrayIfDone(id, now);
        continue;
      }
      Finish(record, JobState::kCancelled, "its dependency can never be met: " + outlook.why, now);
      continue;
    }
    bool has_changed = dependencies_.SettleDependencies(record);
    const Time begin = dependencies_.BeginAfter(record, changed);
    has_changed |= begin != std::exchange(record.begin, begin);
    if (has_changed) effects_.Persist(record);
    feed_.Put(record);
  }
}

JobRecord* JobLifecycle::SplitElement(JobRecord& array, std::uint32_t ordinal) {
  array.array_waiting.Erase(ordinal);
  JobRecord element = jobs_.NewElement(array, ordinal);
  dependencies_.NameCounterparts(element, element.dependencies);
  JobRecord* kept = &jobs_.live().emplace(element.id, std::move(element)).first->second;
  dependencies_.Add(*kept);
  effects_.Insert(*kept, nullptr);
  if (array.array_waiting.empty()) {
    scheduler_.Remove(array.id);
    array.state = JobState::kRunning;
  } else {
    feed_.Put(array);
  }
  effects_.Persist(array);
  feed_.Put(*kept);
  return kept;
}

void JobLifecycle::SplitFromArray(const JobRecord& element, std::optional<JobRecord> array) {
  auto at = jobs_.live().find(element.array);
  if (at == jobs_.live().end()) {
    at = jobs_.live().emplace(element.array, *std::move(array)).first;
    JobRecord& whole = at->second;
    whole.state = JobState::kRunning;
    whole.reason.clear();
    whole.exit.reset();
    whole.ended = kNoTime;
    whole.dependencies.clear();
    predictions_.Know(whole);
    if (whole.array_at_once > 0) feed_.SetArrayLimit(whole);
  }
  JobRecord& whole = at->second;
  std::uint32_t& counted = EndedWell(element)                      ? whole.array_succeeded
                           : element.state == JobState::kCancelled ? whole.array_cancelled
                                                                   : whole.array_failed;
  if (counted > 0) --counted;
  if (whole.array_failed == 0) whole.array_exit_code = 0;
  effects_.Persist(whole);
  effects_.Announce(whole);
}

void JobLifecycle::EndLate(Time now) {
  while (const auto late = deadlines_.PopLate(now)) {
    const auto at = jobs_.live().find(*late);
    if (at == jobs_.live().end()) continue;
    JobRecord& record = at->second;
    if (LatestStart(record) >= now) {  // The deadline or limit was changed meanwhile.
      deadlines_.Watch(record);
    } else if (record.array_count > 0) {
      EndLateElements(record, now);
    } else if (IsWaiting(record.state)) {
      Finish(record, JobState::kTimedOut, Reason(kTooLateForDeadline), now);
    }
  }
}

void JobLifecycle::EndLateElements(JobRecord& array, Time now) {
  const auto late = static_cast<std::uint32_t>(array.array_waiting.size());
  if (late == 0) return;
  const JobId id = array.id;
  array.array_failed += late;
  array.array_waiting = IndexRanges();
  feed_.Remove(id);
  array.state = JobState::kRunning;
  array.is_held = false;
  effects_.Note(id, Plural(late, "element") + " could not start in time to be over by the deadline", now);
  effects_.Persist(array);
  effects_.Announce(array);
  ResolveDependents(JobRecord(array), now);
  FinishArrayIfDone(id, now);
  effects_.RequestPlan();
}

void JobLifecycle::LeaveCluster(const JobRecord& record) {
  feed_.Remove(record.id);
  if (!IsActive(record.state)) return;
  scheduler_.Finish(record.id);
  fractions_.Loosen(record);
  gangs_.Forget(record.id);
  effects_.RequestPlan();
}

}  // namespace divvy
