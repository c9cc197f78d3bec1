#include "cli/shims/slurm_job_steps.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cli/shims/slurm_places.h"

namespace divvy::cli::slurm {
namespace {

wire::JobView AsStep(const wire::JobView& job, const wire::StepView& step) {
  wire::JobView view = job;
  view.name = step.name;
  view.start_time = step.start_time;
  view.end_time = step.end_time;
  view.exit_code = step.exit_code;
  view.signal.reset();
  view.state = "running";
  if (step.exit_code) {
    view.state = *step.exit_code == 0 ? "succeeded" : "failed";
    if (*step.exit_code > 128) view.signal = *step.exit_code - 128;
  } else if (step.state == "cut_off") {
    view.state = "cancelled";
    view.exit_code = 0;
    view.signal = 9;
  }
  // Cores are counted for each task.
  const std::int64_t tasks = std::max<std::int64_t>(job.request.tasks, 1);
  view.request.cpus = std::max<std::int64_t>(job.request.cpus, tasks) / tasks * step.tasks;
  view.request.tasks = step.tasks;
  if (job.seats.empty()) {
    view.gpus.clear();
    for (const std::string_view gpu : Split(step.gpus, ',')) {
      if (const auto index = ParseInteger(gpu)) view.gpus.push_back(*index);
    }
    view.request.gpus = static_cast<std::int64_t>(view.gpus.size());
    view.request.gpus_most = 0;
  }
  return view;
}

}  // namespace

std::vector<JobStep> JobStepsOf(const wire::JobDetail& detail, const std::vector<wire::StepView>& steps) {
  const wire::JobView job = ViewOf(detail);
  std::vector<JobStep> out;
  if (!job.start_time) return out;
  if (!detail.is_foreground) {
    JobStep batch{.id = "batch", .job = job, .is_measured = true};
    batch.job.name = "batch";
    out.push_back(std::move(batch));
  }
  for (const wire::StepView& step : steps) {
    if (step.start_time) out.push_back({std::to_string(step.number), AsStep(job, step), false});
  }
  const bool is_salloc = LabelOf(detail, "door", "") == "salloc";
  if (out.empty() && !is_salloc) out.push_back({"0", job, true});
  return out;
}

std::string ShowStep(const JobStep& step, const Scene& scene, bool is_one_line) {
  const wire::JobView& job = step.job;
  const std::string tasks = std::to_string(step.is_measured ? 1 : job.request.tasks);
  const std::string limit =
      job.request.time_limit_s > 0 ? LongElapsed(std::ceil(job.request.time_limit_s)) : "UNLIMITED";
  const std::vector<std::string> lines = {
      "StepId=" + JobIdText(job) + "." + step.id + " UserId=" + std::to_string(scene.uid_of(job.user)) +
          " StartTime=" + Moment(job.start_time, "Unknown") + " TimeLimit=" + limit,
      "State=" + StateName(job.state) + " Partition=" + Partition(job) + " NodeList=" + HostListOf(job, scene),
      "Nodes=" + std::to_string(step.is_measured ? 1 : NodeCountOf(job)) + " CPUs=" + std::to_string(CpusOf(job)) +
          " Tasks=" + tasks + " Name=" + job.name + " Network=(null)",
      "TRES=" + Tres(job, GpusOf(job)),
      "ResvPorts=(null)",
      "CPUFreqReq=Default Dist=Block",
      "SrunHost:Pid=" + BatchHostOf(job, scene) + ":0",
  };
  return Join(lines, is_one_line ? " " : "\n   ") + (is_one_line ? "\n" : "\n\n");
}

}  // namespace divvy::cli::slurm
