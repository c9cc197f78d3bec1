// Jobs with a deadline: those that can no longer meet it leave the queue, and a run ends by it.
#include <algorithm>

#include "base/duration_text.h"
#include "base/text.h"
#include "control/controller/controller.h"
#include "model/reason_words.h"

namespace divvy {

void Controller::EndLate(Time now) {
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

void Controller::EndLateElements(JobRecord& array, Time now) {
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

}  // namespace divvy
