// Running elastic jobs: GPUs that the engine adds or asks back, and the jobs' answers.
//
// A job holds `gpus`. It may be asked for some of them, `gpus_asked_back`, which stay its own until it calls `divvy
// checkpoint`. Its file lists the rest, which it may use. All of this is in the record, so a restart loses nothing.
#include "base/text.h"
#include "control/books/record_parts.h"
#include "control/controller/controller.h"
#include "engine/message_text.h"

namespace divvy {

void Controller::Resize(const Resizing& resizing, Time now) {
  JobRecord& record = jobs_.live().at(resizing.job);
  const GpuSet more = resizing.gpus - record.gpus;
  const GpuSet asked = resizing.asked_back - record.gpus_asked_back;
  if (!more.empty()) {
    teams_.budgets().CountUsage(record, now);
    record.gpus = resizing.gpus;
    record.gpu_model = nodes_.ModelOf(record);
    MeasureAnew(record.progress);
    record.gpus_since = record.grown_at = now;
    effects_.Note(record.id, "gets " + GpusText(more) + ": " + resizing.reason, now);
  }
  if (!asked.empty()) {
    record.asked_back_at = now;
    effects_.Note(record.id, "is asked to give back " + GpusText(asked) + ": " + resizing.reason, now);
  } else if (more.empty()) {
    effects_.Note(record.id, resizing.reason, now);
  }
  record.gpus_asked_back = resizing.asked_back;
  if (resizing.asked_back.empty()) record.asked_back_at = kNoTime;
  if (resizing.is_silent) record.takes_resizes = false;
  effects_.Persist(record);
  effects_.Send(record, ResizeOrder{record.id, record.gpus - record.gpus_asked_back, !resizing.is_silent, ""});
  effects_.Announce(record);
}

Result<Controller::Checkpointed> Controller::Checkpoint(JobId id, std::uint32_t attempt, const Caller& caller,
                                                        Time now) {
  const auto at = jobs_.live().find(id);
  if (at == jobs_.live().end()) return NotFound("there is no queued or running job " + ToString(id));
  JobRecord& record = at->second;
  DIVVY_CHECK(Authorise(record, caller, "report for"));
  DIVVY_CHECK(CheckSpeaks(record, attempt));
  const GpuSet back = record.gpus_asked_back;
  if (!back.empty()) {
    teams_.budgets().CountUsage(record, now);
    record.gpus = record.gpus - back;
    record.gpu_model = nodes_.ModelOf(record);
    MeasureAnew(record.progress);
    record.gpus_since = now;
    record.gpus_asked_back = GpuSet();
    record.asked_back_at = kNoTime;
    scheduler_.Resize(id, record.gpus);
    effects_.Note(id, "gives back " + GpusText(back), now);
    effects_.Announce(record);
    effects_.RequestPlan();
  }
  const bool joins = !record.takes_resizes && record.request.is_elastic() && record.request.gpus > 0;
  if (joins) {
    record.takes_resizes = true;
    scheduler_.SetResizable(id);
    effects_.RequestPlan();
  }
  const bool has_changed = record.gpus_used != record.gpus;
  record.gpus_used = record.gpus;
  if (has_changed || joins || !back.empty()) effects_.Persist(record);
  return Checkpointed{record.gpus, has_changed};
}

Result<Progress> Controller::ReportProgress(JobId id, std::uint32_t attempt, const ProgressReport& report,
                                            const Caller& caller, Time now) {
  const auto at = jobs_.live().find(id);
  if (at == jobs_.live().end()) return NotFound("there is no queued or running job " + ToString(id));
  DIVVY_CHECK(Authorise(at->second, caller, "report for"));
  DIVVY_CHECK(CheckSpeaks(at->second, attempt));
  return progress_.Report(at->second, report, now);
}

}  // namespace divvy
