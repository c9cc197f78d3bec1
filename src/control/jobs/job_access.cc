#include "control/jobs/job_access.h"

#include "control/books/record_parts.h"

namespace divvy {

Error WrongState(const JobRecord& record, std::string_view verb, std::string_view repair) {
  return FailedPrecondition("job " + DisplayId(record) + " is " + std::string(Name(record.state)) + " and cannot be " +
                            std::string(verb) + (repair.empty() ? "" : "; " + std::string(repair)));
}

Status CheckCanQueueAgain(const JobRecord& record) {
  if (record.is_foreground)
    return FailedPrecondition("job " + DisplayId(record) +
                              " runs on a user's terminal and cannot be queued again; cancel it");
  if (record.is_run_once)
    return FailedPrecondition(
        "job " + DisplayId(record) +
        " runs once, since it was submitted with --no-requeue or adopted without its script; submit it again");
  if (record.array_count > 0)
    return WrongState(record, "requeued as a whole", "name its elements: " + ToString(record.id) + "_0");
  return {};
}

Reason QueuedAgainBy(const Caller& caller, JobId id, RequeueAs as) {
  const bool holds = as == RequeueAs::kHeld;
  return holds ? "queued again and held by " + CallerName(caller) + ": divvy release " + ToString(id)
               : "queued again by " + CallerName(caller);
}

Status JobAccess::Authorise(const JobRecord& record, const Caller& caller, std::string_view verb) const {
  if (caller.is_admin || caller.user.uid == record.user.uid) return {};
  if (CanLead(verb) && Leads(caller, record)) return {};
  return PermissionDenied("job " + DisplayId(record) + " belongs to " + record.user.name + "; " + CallerName(caller) +
                          " may not " + std::string(verb) + " it");
}

Result<JobRecord*> JobAccess::FindForAction(JobId id, const Caller& caller, std::string_view verb) {
  if (const auto at = jobs_.live().find(id); at != jobs_.live().end()) {
    DIVVY_CHECK(Authorise(at->second, caller, verb));
    return &at->second;
  }
  const JobRecord* array = jobs_.ArrayOf(id);
  if (array == nullptr) return NotFound("there is no queued or running job " + ToString(id));
  DIVVY_CHECK(Authorise(*array, caller, verb));
  return lifecycle_.SplitElement(jobs_.live().at(array->id),
                                 static_cast<std::uint32_t>(id.value() - array->id.value() - 1));
}

Result<JobRecord*> JobAccess::FindReporter(JobId id, std::uint32_t attempt, const Caller& caller) {
  const auto at = jobs_.live().find(id);
  if (at == jobs_.live().end()) return NotFound("there is no queued or running job " + ToString(id));
  DIVVY_CHECK(Authorise(at->second, caller, "report for"));
  DIVVY_CHECK(CheckSpeaks(at->second, attempt));
  return &at->second;
}

}  // namespace divvy
