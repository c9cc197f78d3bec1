// Running elastic jobs: GPUs that the engine adds or asks back, and the jobs' answers.
//
// A job holds `gpus`. It may be asked for some of them, `gpus_asked_back`, which stay its own until it calls `divvy
// checkpoint`. Its file lists the rest, which it may use. All of this is in the record, so a restart loses nothing.
#include "base/text.h"
#include "control/books/record_parts.h"
#include "control/controller/controller.h"
#include "engine/message_text.h"

namespace divvy {

Result<Controller::Checkpointed> Controller::Checkpoint(JobId id, std::uint32_t attempt, const Caller& caller,
                                                        Time now) {
  DIVVY_TRY(JobRecord * record, FindReporter(id, attempt, caller));
  return elastic_.Checkpoint(*record, now);
}

Result<Progress> Controller::ReportProgress(JobId id, std::uint32_t attempt, const ProgressReport& report,
                                            const Caller& caller, Time now) {
  DIVVY_TRY(JobRecord * record, FindReporter(id, attempt, caller));
  return progress_.Report(*record, report, now);
}

Result<JobRecord*> Controller::FindReporter(JobId id, std::uint32_t attempt, const Caller& caller) {
  const auto at = jobs_.live().find(id);
  if (at == jobs_.live().end()) return NotFound("there is no queued or running job " + ToString(id));
  DIVVY_CHECK(Authorise(at->second, caller, "report for"));
  DIVVY_CHECK(CheckSpeaks(at->second, attempt));
  return &at->second;
}

}  // namespace divvy
