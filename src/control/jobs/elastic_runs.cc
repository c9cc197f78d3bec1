#include "control/jobs/elastic_runs.h"

#include "control/books/progress.h"
#include "control/books/record_parts.h"
#include "engine/message_text.h"

namespace divvy {

void ElasticRuns::Resize(const Resizing& resizing, Time now) {
  JobRecord& record = jobs_.live().at(resizing.job);
  const GpuSet more = resizing.gpus - record.gpus;
  const GpuSet asked = resizing.asked_back - record.gpus_asked_back;
  if (!more.empty()) {
    budgets_.CountUsage(record, now);
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
  effects_.Send(record, ResizeCommand{record.id, record.gpus - record.gpus_asked_back, !resizing.is_silent, ""});
  effects_.Announce(record);
}

ElasticRuns::Checkpointed ElasticRuns::Checkpoint(JobRecord& record, Time now) {
  const GpuSet back = record.gpus_asked_back;
  if (!back.empty()) {
    budgets_.CountUsage(record, now);
    record.gpus = record.gpus - back;
    record.gpu_model = nodes_.ModelOf(record);
    MeasureAnew(record.progress);
    record.gpus_since = now;
    record.gpus_asked_back = GpuSet();
    record.asked_back_at = kNoTime;
    scheduler_.Resize(record.id, record.gpus);
    effects_.Note(record.id, "gives back " + GpusText(back), now);
    effects_.Announce(record);
    effects_.RequestPlan();
  }
  const bool joins = !record.takes_resizes && record.request.is_elastic() && record.request.gpus > 0;
  if (joins) {
    record.takes_resizes = true;
    scheduler_.SetResizable(record.id);
    effects_.RequestPlan();
  }
  const bool has_changed = record.gpus_used != record.gpus;
  record.gpus_used = record.gpus;
  if (has_changed || joins || !back.empty()) effects_.Persist(record);
  return Checkpointed{record.gpus, has_changed};
}

}  // namespace divvy
