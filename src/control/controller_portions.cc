// Jobs that have parts of GPUs, while they run: what they may have of them changes, and what they lend is taken back.
// Who is on which GPU at this moment is for the node to say (docs/sharing.md); here it is what the plan says.
#include "control/controller.h"
#include "control/record_parts.h"

namespace divvy {

Result<std::string> Controller::ResizePortion(JobId id, const GpuPortion& portion, const Caller& caller, Time now,
                                              const FindOutcome& outcome) {
  if (!portion.any()) return InvalidArgument("name a part of a GPU, such as --gpus 0.5");
  const JobRecord* known = Find(id);
  if (known == nullptr || Waits(*known) || known->array_count > 0) {
    JobChanges changes;
    changes.portion = portion;
    if (known != nullptr && !known->request.slice.empty())
      return FailedPrecondition("job " + DisplayId(*known) + " asks for a slice " + known->request.slice +
                                " of a GPU, whose size is its own; cancel it and submit it with another --slice");
    if (known != nullptr && !known->request.is_portioned())
      return FailedPrecondition("job " + DisplayId(*known) + " asks for whole GPUs; divvy update " + DisplayId(*known) +
                                " --gpus N changes how many, while it waits");
    return Update(id, changes, caller, now, outcome);
  }
  DIVVY_TRY(JobRecord * record, FindForAction(id, caller, "change"));
  const std::string job = "job " + DisplayId(*record);
  if (record->gpu_slice.any())
    return FailedPrecondition(job + " has a slice " + record->gpu_slice.profile +
                              " of a GPU, which the hardware sets apart: it cannot grow or shrink while it runs");
  if (!record->request.is_portioned())
    return FailedPrecondition(job +
                              " has whole GPUs, which cannot be divided while it runs; submit it with --gpus 0.5");
  if (!IsActive(record->state) || record->state == JobState::kStopping)
    return FailedPrecondition(job + " is " + std::string(Name(record->state)) + "; it has nothing to be resized");
  const GpuPortion before = record->request.portion;
  GpuPortion wanted = portion;
  if (wanted.idle_park == Duration(0)) wanted.idle_park = before.idle_park;
  wanted.uses_mps = before.uses_mps;
  if (const Status fits = cluster_.SetPortion(id, wanted); !fits)
    return Error{fits.error().code,
                 job + " cannot grow: " + fits.error().message + "; divvy gpus shows who has the rest"};
  record->request.portion = wanted;
  record->gpu_parts = cluster_.running(id)->share;
  Note(id, "resized from " + PortionText(before) + " of a GPU to " + PortionText(wanted) + " by " + CallerName(caller),
       now);
  Persist(*record);
  Send(*record, PortionOrder{id, wanted, ""});
  Announce(*record);
  needs_plan_ = true;
  return "has " + PortionText(wanted) + " of " + (record->gpus.size() > 1 ? "each of its GPUs" : "its GPU");
}

Result<const JobRecord*> Controller::FindTenant(JobId id, const Caller& caller, std::string_view verb) const {
  const JobRecord* record = Find(id);
  if (record == nullptr) return NotFound("there is no live job " + ToString(id));
  DIVVY_CHECK(Authorise(*record, caller, verb));
  const std::string job = "job " + DisplayId(*record);
  if (!record->request.slice.empty())
    return FailedPrecondition(job + " has a slice of a GPU, which the hardware sets apart: what runs in it can be " +
                              (verb == "move"   ? "moved to no other place"
                               : verb == "park" ? "parked by nobody"
                                                : "neither parked nor woken"));
  if (!record->request.is_portioned())
    return FailedPrecondition(job + " has whole GPUs or none; only jobs with parts of GPUs (--gpus 0.5) can be " +
                              (verb == "move"   ? "moved"
                               : verb == "park" ? "parked"
                                                : "woken"));
  if (record->state != JobState::kRunning)
    return FailedPrecondition(job + " is " + std::string(Name(record->state)) + ", and is on no GPU");
  return record;
}

void Controller::OnRepay(JobId id, std::uint32_t attempt, const std::string& why, Time now) {
  const JobRecord* record = Find(id);
  if (record == nullptr || record->attempt != attempt || record->state != JobState::kRunning) return;
  if (PreemptibleOf(*record) != Preemptible::kRequeue) return;
  Caller divvy;
  divvy.is_admin = true;
  divvy.user.name = "divvy";
  Note(id, "gives back what it borrowed: " + why, now);
  static_cast<void>(Requeue(id, false, divvy, now));
}

}  // namespace divvy
