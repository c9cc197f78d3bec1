// Dependencies between jobs, arrays and their elements, and singletons.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "control/books/record_parts.h"
#include "control/controller/controller.h"

namespace divvy {

// Withdrawn jobs count as cancelled for the jobs that depend on them.
void Controller::Withdraw(const std::vector<JobId>& ids, Time now) {
  std::vector<JobRecord> withdrawn;
  for (const JobId id : ids) RemoveSubmission(id, withdrawn);
  for (JobRecord& record : withdrawn) {
    record.state = JobState::kCancelled;
    record.started = kNoTime;
    record.array_waiting = IndexRanges();
    dependencies_.KeepOutcome(record);
  }
  for (const JobRecord& record : withdrawn) ResolveDependents(record, now);
}

void Controller::ResolveDependents(const JobRecord& changed, Time now) {
  for (JobId id : dependencies_.AffectedBy(changed)) {
    const auto at = jobs_.live().find(id);
    if (at == jobs_.live().end()) continue;
    JobRecord& record = at->second;
    if (record.state != JobState::kQueued && record.state != JobState::kHeld) continue;
    DependencyOutlook hope = dependencies_.DependencyOutlookOf(record);
    // When one alternative is gone, the remaining "any of them" may be jobs that wait for this one.
    if (!hope.is_lost && !hope.why.empty()) {
      const std::string cycle = dependencies_.FindCycle({}, id);
      if (!cycle.empty()) hope = {true, hope.why + ", and it would wait for itself: " + cycle};
    }
    if (hope.is_lost && !record.keeps_waiting) {
      record.array_cancelled += static_cast<std::uint32_t>(record.array_waiting.size());
      record.array_waiting = IndexRanges();
      if (record.array_cancelled < record.array_count) {
        // Elements with records of their own wait, run or have ended independently.
        feed_.Remove(id);
        record.state = JobState::kRunning;
        record.is_held = false;
        effects_.Note(id, "its dependency can never be met: " + hope.why, now);
        effects_.Persist(record);
        FinishArrayIfDone(id, now);
        continue;
      }
      Finish(record, JobState::kCancelled, "its dependency can never be met: " + hope.why, now);
      continue;
    }
    bool has_changed = dependencies_.SettleDependencies(record);
    const Time begin = dependencies_.BeginAfter(record, changed);
    has_changed |= begin != std::exchange(record.begin, begin);
    if (has_changed) effects_.Persist(record);
    feed_.Put(record);
  }
}

}  // namespace divvy
