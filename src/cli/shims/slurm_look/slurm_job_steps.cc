#include "cli/shims/slurm_look/slurm_job_steps.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_places.h"

namespace divvy::cli::slurm {
namespace {

/// For a job on several nodes: limits `view` to the job's resources on the step's nodes.
void TakePlaces(const wire::JobView& job, const std::vector<wire::AllocationView>& allocations, wire::JobView& view) {
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t gpus = 0;
  const std::vector<Place> places = PlacesOf(job, {});
  for (const wire::AllocationView& allocation : allocations) {
    gpus += static_cast<std::int64_t>(allocation.gpus.size());
    const auto at = std::ranges::find(job.allocations, allocation.node, &wire::AllocationView::node);
    if (at == job.allocations.end() || places.size() != job.allocations.size()) continue;
    const Place& place = places[static_cast<std::size_t>(at - job.allocations.begin())];
    cpus += place.cpus;
    memory_bytes += place.memory_bytes;
  }
  view.allocations = allocations;
  view.node = allocations.front().node;
  view.gpus = allocations.front().gpus;
  view.request.cpus = std::min(view.request.cpus, std::max<std::int64_t>(cpus, 1));
  view.request.tasks = std::min(view.request.tasks, view.request.cpus);
  view.request.memory_bytes = memory_bytes;
  view.request.gpus = gpus;
  view.request.max_gpus = 0;
}

wire::JobView AsStep(const wire::JobView& job, const wire::StepView& step) {
  wire::JobView view = job;
  view.name = step.name;
  view.start_time = step.start_time;
  view.end_time = step.end_time;
  view.exit_code = step.exit_code;
  view.signal.reset();
  view.request.time_limit_s = step.time_limit_s;
  view.state = "running";
  if (step.exit_code) {
    view.state = *step.exit_code == 0 ? "succeeded" : "failed";
    if (*step.exit_code > 128) view.signal = *step.exit_code - 128;
    // The step ended because its job was stopped, or the step itself was cancelled.
    const bool was_stopped = view.signal == SIGTERM || view.signal == SIGKILL;
    const bool was_cancelled = step.state == "cancelled" || job.state == "cancelled" || job.state == "timed_out";
    const bool hit_limit = step.state == "cancelled" && step.time_limit_s > 0 && step.end_time && step.start_time &&
                           *step.end_time - *step.start_time >= step.time_limit_s;
    if (was_stopped && was_cancelled) {
      view.state = hit_limit ? "timed_out" : "cancelled";
      view.exit_code = 0;
    }
  } else if (step.state == "cut_off") {
    view.state = "cancelled";
    view.exit_code = 0;
    view.signal = 9;
  }
  // Cores are counted per task on all nodes. Tasks that share cores have at most the job's cores.
  const std::int64_t cpus = CpusOf(job);
  const std::int64_t tasks = std::max<std::int64_t>(job.request.tasks, 1);
  const std::int64_t each = std::max<std::int64_t>(cpus / tasks, 1);
  view.request.cpus = step.tasks < cpus / each ? each * step.tasks : cpus;
  view.request.tasks = std::min(step.tasks, view.request.cpus);
  view.request.memory_bytes = MemoryOf(job);
  view.request.gpus = GpusAskedBy(job);
  view.request.nodes = 1;
  view.request.short_nodes = 0;
  if (!step.allocations.empty()) {
    TakePlaces(job, step.allocations, view);
  } else if (job.allocations.empty()) {
    view.gpus.clear();
    for (const std::string_view gpu : Split(step.gpus, ',')) {
      if (const auto index = ParseInteger(gpu)) view.gpus.push_back(*index);
    }
    view.request.gpus = static_cast<std::int64_t>(view.gpus.size());
    view.request.max_gpus = 0;
  }
  return view;
}

}  // namespace

JobStep BatchStepOf(const wire::JobView& job) {
  JobStep batch{.id = "batch", .job = job, .is_measured = true};
  batch.job.name = "batch";
  if (job.allocations.size() < 2) return batch;
  const Place first = PlacesOf(job, {}).front();
  batch.job.allocations.resize(1);
  wire::RequestView& request = batch.job.request;
  request.cpus = first.cpus;
  request.memory_bytes = first.memory_bytes;
  request.tasks = std::min(batch.job.allocations.front().tasks, first.cpus);
  request.nodes = 1;
  request.short_nodes = 0;
  return batch;
}

std::vector<JobStep> JobStepsOf(const wire::JobDetail& detail, const std::vector<wire::StepView>& steps) {
  const wire::JobView job = ViewOf(detail);
  std::vector<JobStep> out;
  if (!job.start_time) return out;
  if (!detail.is_foreground) {
    out.push_back(BatchStepOf(job));
  }
  for (const wire::StepView& step : steps) {
    if (step.start_time) out.push_back({std::to_string(step.number), AsStep(job, step), false, step.tasks});
  }
  const bool is_salloc = LabelOf(detail, "door", "") == "salloc";
  if (out.empty() && !is_salloc) out.push_back({"0", job, true, 1});
  return out;
}

std::string ShowStep(const JobStep& step, const Scene& scene, bool is_one_line) {
  const wire::JobView& job = step.job;
  const std::string tasks = std::to_string(step.tasks);
  const std::string limit =
      job.request.time_limit_s > 0 ? LongElapsed(std::ceil(job.request.time_limit_s)) : "UNLIMITED";
  const std::vector<std::string> lines = {
      "StepId=" + JobIdText(job) + "." + step.id + " UserId=" + std::to_string(scene.uid_of(job.user)) +
          " StartTime=" + Moment(job.start_time, "Unknown") + " TimeLimit=" + limit,
      "State=" + StateName(job) + " Partition=" + Partition(job) + " NodeList=" + HostListOf(job, scene),
      "Nodes=" + std::to_string(NodeCountOf(job)) + " CPUs=" + std::to_string(CpusOf(job)) + " Tasks=" + tasks +
          " Name=" + job.name + " Network=(null)",
      "TRES=" + Tres(job, GpusOf(job)),
      "ResvPorts=(null)",
      "CPUFreqReq=Default Dist=Block",
      "SrunHost:Pid=" + BatchHostOf(job, scene) + ":0",
  };
  return Join(lines, is_one_line ? " " : "\n   ") + (is_one_line ? "\n" : "\n\n");
}

}  // namespace divvy::cli::slurm
