#include "control/jobs/fraction_commands.h"

#include "control/books/borrow_requeue_policy.h"
#include "control/books/record_parts.h"
#include "engine/scheduler/explain.h"
#include "model/gpus/gpu_portion.h"

namespace divvy {
namespace {

/// Applies `said` to what job `name` has. Fails for a contradictory change, and says what is possible.
Result<GpuPortion> Merged(const GpuPortion& before, const GpuPortion& said, const std::string& name) {
  if (said == GpuPortion()) {
    return InvalidArgument("name the new size: divvy resize " + name +
                           " --gpus 0.5, --gpu-limit 1, --gpu-memory 20G, --gpu-memory-limit 40G or --compute 0.3");
  }
  const bool is_by_memory = said.memory > Bytes() || (before.is_by_memory() && said.request == GpuShare());
  if (is_by_memory && said.limit > GpuShare()) {
    return InvalidArgument("--gpu-limit is a fraction, but job " + name +
                           " requests memory; write --gpu-memory-limit SIZE, or request a fraction: --gpus 0.5");
  }
  if (!is_by_memory && said.memory_limit > Bytes()) {
    return InvalidArgument("--gpu-memory-limit is an amount of memory, but job " + name +
                           " requests a fraction; write --gpu-limit FRACTION, or request memory: --gpu-memory 20G");
  }
  const GpuPortion after = Changed(before, said);
  if (said.limit > GpuShare() && said.limit < after.request) {
    return InvalidArgument("--gpu-limit " + PartsText(said.limit) + " is below what job " + name + " asks for (" +
                           PartsText(after.request) + "); the limit must be at least the request: --gpu-limit " +
                           PartsText(after.request) + ", or lower both: --gpus " + PartsText(said.limit) +
                           " --gpu-limit " + PartsText(said.limit));
  }
  if (said.memory_limit > Bytes() && said.memory_limit < after.memory) {
    return InvalidArgument("--gpu-memory-limit is below what job " + name + " asks for (" + PortionText(before) +
                           "); the limit must be at least the request");
  }
  return after;
}

/// "0.25 to 0.8" and the compute share, if set: "0.25 to 0.8 of a GPU, 0.3 of its time".
std::string InFull(const GpuPortion& portion, const std::string& of) {
  const std::string compute = ComputeText(portion);
  return PortionText(portion) + " of " + of + (compute.empty() ? "" : ", " + compute);
}

}  // namespace

Result<std::string> FractionCommands::ResizePortion(JobId id, const GpuPortion& portion, const Caller& caller, Time now,
                                                    const FindOutcome& outcome) {
  const JobRecord* known = jobs_.Find(id);
  if (known == nullptr || IsWaiting(known->state) || known->array_count > 0) {
    JobChanges changes;
    if (known == nullptr) {
      changes.portion = portion;
      return updates_.Update(id, changes, caller, now, outcome);  // Reports the error.
    }
    if (!known->request.slice.empty())
      return FailedPrecondition("job " + DisplayId(*known) + " asks for a slice " + known->request.slice +
                                " of a GPU, whose size is fixed; divvy update " + DisplayId(*known) +
                                " --slice chooses another while it waits, and --gpus 0.5 a fraction instead");
    if (!known->request.is_portioned())
      return FailedPrecondition("job " + DisplayId(*known) + " asks for whole GPUs; while it waits divvy update " +
                                DisplayId(*known) +
                                " --gpus 0.5 changes that to a fraction, and --gpus N to another number");
    DIVVY_TRY(changes.portion, Merged(known->request.portion, portion, DisplayId(*known)));
    const std::string asked = InFull(*changes.portion, known->request.gpus > 1 ? "each of its GPUs" : "a GPU");
    DIVVY_TRY(const std::string done, updates_.Update(id, changes, caller, now, outcome));
    static_cast<void>(done);
    return "asks for " + asked;
  }
  DIVVY_TRY(JobRecord * record, access_.FindForAction(id, caller, "change"));
  const std::string job = "job " + DisplayId(*record);
  if (record->gpu_slice.any())
    return FailedPrecondition(job + " has a slice " + record->gpu_slice.profile +
                              " of a GPU, which the hardware partitions: it cannot be resized while the job runs");
  if (!record->request.is_portioned())
    return FailedPrecondition(job +
                              " has whole GPUs, which cannot be divided while it runs; submit it with --gpus 0.5");
  if (!IsActive(record->state) || record->state == JobState::kStopping)
    return FailedPrecondition(job + " is " + std::string(Name(record->state)) +
                              "; it holds no GPU that can be resized");
  const GpuPortion before = record->request.portion;
  DIVVY_TRY(const GpuPortion wanted, Merged(before, portion, DisplayId(*record)));
  const RunningJob& running = *scheduler_.running(id);
  for (const int gpu : running.gpus.ToVector()) {
    const auto& facts = scheduler_.node(running.node).capacity.gpus[static_cast<std::size_t>(gpu)];
    if (const Status good = CheckPortion(wanted, facts.memory_total, "GPU " + std::to_string(gpu)); !good)
      return Error{good.error().code, job + " " + good.error().message};
  }
  if (const Status fits = fractions_.Grow(*record, wanted); !fits)
    return Error{fits.error().code,
                 job + " cannot grow: " + fits.error().message + "; divvy gpus shows which jobs have the rest"};
  record->request.portion = wanted;
  record->gpu_parts = scheduler_.running(id)->share;
  effects_.Note(
      id, "resized from " + InFull(before, "a GPU") + " to " + InFull(wanted, "a GPU") + " by " + CallerName(caller),
      now);
  effects_.Persist(*record);
  effects_.Send(*record, PortionCommand{id, wanted, record->gpus, ""});
  fractions_.Loosen(*record);
  effects_.Announce(*record);
  effects_.RequestPlan();
  return "has " + InFull(wanted, record->gpus.size() > 1 ? "each of its GPUs" : "its GPU");
}

Result<const JobRecord*> FractionCommands::FindTenant(JobId id, const Caller& caller, std::string_view verb) const {
  const JobRecord* record = jobs_.Find(id);
  if (record == nullptr) return NotFound("there is no queued or running job " + ToString(id));
  DIVVY_CHECK(access_.Authorise(*record, caller, verb));
  const std::string job = "job " + DisplayId(*record);
  if (!record->request.slice.empty())
    return FailedPrecondition(job + " has a slice of a GPU, which the hardware partitions: it cannot be " +
                              (verb == "move"   ? "moved"
                               : verb == "park" ? "parked"
                                                : "parked or woken"));
  if (!record->request.is_portioned())
    return FailedPrecondition(job + " has whole GPUs or none; only jobs with GPU fractions (--gpus 0.5) can be " +
                              (verb == "move"   ? "moved"
                               : verb == "park" ? "parked"
                                                : "woken"));
  if (record->state == JobState::kPaused) {
    return FailedPrecondition(job + " is paused, and was parked with that where possible; divvy resume " +
                              DisplayId(*record) + " lets it go on");
  }
  if (record->state != JobState::kRunning)
    return FailedPrecondition(job + " is " + std::string(Name(record->state)) + ", and is on no GPU");
  return record;
}

void FractionCommands::OnRepay(JobId id, std::uint32_t attempt, const std::string& why, Time now) {
  const auto at = jobs_.live().find(id);
  if (at == jobs_.live().end() || at->second.attempt != attempt || at->second.state != JobState::kRunning) return;
  JobRecord& record = at->second;
  if (!MayRequeueToRepay(record)) return;
  Caller divvy;
  divvy.is_admin = true;
  divvy.user.name = "divvy";
  effects_.Note(id, "returns what it borrowed: " + why, now);
  if (!commands_.Requeue(id, RequeueAs::kQueued, divvy, now)) return;
  retries_.NoteRepaid(id);
  record.reason = "queued again, because it had to return what it borrowed: " + why;
  effects_.Persist(record);
}

void FractionCommands::OnShareEvent(JobId id, std::uint32_t attempt, const std::string& what, Time now) {
  const JobRecord* record = jobs_.Find(id);
  if (record == nullptr || record->attempt != attempt || !IsActive(record->state)) return;
  effects_.Note(id, what, now);
  effects_.Announce(*record, what);
}

}  // namespace divvy
