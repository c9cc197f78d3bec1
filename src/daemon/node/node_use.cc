// Lists the runs on this node, for the sampler.
#include "daemon/node/job_log.h"
#include "daemon/node/node.h"

namespace divvy {

std::vector<Node::RunHere> Node::runs_here() const {
  std::vector<RunHere> here;
  for (const auto& [job, run] : runs_) {
    const JobRecord* record = controller_ == nullptr ? nullptr : controller_->Find(job);
    if (record == nullptr || run.record.exit || !run.record.has_started()) continue;
    RunHere& one = here.emplace_back();
    one.job = job;
    one.attempt = run.record.attempt;
    one.use.job = job.value();
    if (run.record.supervisor.pid > 0) one.use.roots.push_back(run.record.supervisor.pid);
    if (run.record.guard.pid > 0) one.use.roots.push_back(run.record.guard.pid);
    if (run.adopted) one.use.roots.push_back(run.record.process.pid);
    one.use.gpus = GpusHere(*record);
    one.use.has_slices = record->gpu_slice.any();
    one.use.is_paused = record->state == JobState::kPaused;
    one.use.has_parts = record->request.is_portioned() || record->gpu_slice.any();
  }
  return here;
}

std::optional<JobLog> Node::LogOfRun(JobId job) const {
  const JobRecord* record = controller_ == nullptr ? nullptr : controller_->Find(job);
  if (record == nullptr) return std::nullopt;
  const auto spec = controller_->SpecOf(*record);
  if (!spec || *spec == nullptr) return std::nullopt;
  return JobLogOf(*this, *record, **spec, false);
}

}  // namespace divvy
