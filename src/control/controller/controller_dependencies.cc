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
  for (const JobRecord& record : withdrawn) lifecycle_.ResolveDependents(record, now);
}

}  // namespace divvy
