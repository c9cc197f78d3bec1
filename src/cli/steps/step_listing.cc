#include "cli/steps/step_listing.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/client/job_text.h"
#include "cli/steps/steps.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_hostlist.h"
#include "platform/os/runtime_paths.h"
#include "platform/records/step_list_file.h"
#include "platform/steps/step_client.h"
#include "wire/messages/step_views.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kStepsShown = 20;
constexpr std::size_t kTasksShown = 64;

/// Possible paths of the step list: inside the job, the variable names it; else below this machine's daemon or agent. A
/// daemon without root runs all jobs as its own user.
std::vector<std::string> ListsOf(JobId job, const std::string& user) {
  const RuntimePaths places = FindPlaces();
  const std::int64_t own = ::geteuid();
  const std::int64_t uid = UserIdOf(user).value_or(own);
  std::vector<std::string> paths;
  const char* inside = ::getenv("DIVVY_JOB_ID");
  const char* list = ::getenv("DIVVY_STEPS");
  if (inside != nullptr && list != nullptr && ToString(job) == inside) paths.emplace_back(list);
  for (const std::string& runs : {places.runs, places.state + "/agent/runs"}) {
    paths.push_back(StepListPath(runs, uid, job.value()));
    if (uid != own) paths.push_back(StepListPath(runs, own, job.value()));
  }
  return paths;
}

std::string RunTime(const wire::StepView& step, double now) {
  if (!step.start_time) return "";
  const double ran = step.end_time.value_or(now) - *step.start_time;
  return dialect::FormatDuration(std::chrono::seconds(static_cast<std::int64_t>(std::max(ran, 0.0))));
}

/// "n[1-2] GPUs 0-3; n3 GPU 0": consecutive nodes with equal resources are merged.
std::string AllocationsText(const std::vector<wire::AllocationView>& allocations, const std::string& controller) {
  std::string out;
  for (std::size_t first = 0; first < allocations.size();) {
    std::size_t after = first;
    std::vector<std::string> hosts;
    for (; after < allocations.size() && allocations[after].gpus == allocations[first].gpus; ++after)
      hosts.push_back(allocations[after].node.empty() ? controller : allocations[after].node);
    if (!out.empty()) out += "; ";
    out += dialect::FoldHostList(hosts);
    const std::vector<std::int64_t>& gpus = allocations[first].gpus;
    if (!gpus.empty()) out += (gpus.size() > 1 ? " GPUs " : " GPU ") + GpuList(gpus);
    first = after;
  }
  return out;
}

/// True if the step's name adds information to its command.
bool IsCalledOtherwise(const wire::StepView& step) {
  StepLine line;
  line.command = step.command;
  return step.name != StepName(line);
}

/// "rank 3  n2  GPU 1  cores 0-15".
std::string MapText(const wire::StepView& step, const std::string& controller) {
  std::string out;
  for (std::size_t i = 0; i < std::min(step.task_map.size(), kTasksShown); ++i) {
    const wire::StepTaskView& task = step.task_map[i];
    out += "     rank " + std::to_string(task.rank);
    if (!step.allocations.empty()) out += "  " + (task.node.empty() ? controller : task.node);
    if (!task.gpus.empty()) out += "  GPU " + GpuList(task.gpus);
    if (!task.cores.empty()) out += "  cores " + task.cores;
    out += "\n";
  }
  if (step.task_map.size() > kTasksShown)
    out += "     ... " + std::to_string(step.task_map.size() - kTasksShown) + " more: --json\n";
  return out;
}

}  // namespace

std::vector<StepLine> StepsOf(JobId job, const std::string& user) {
  for (const std::string& path : ListsOf(job, user)) {
    if (auto steps = ReadStepListFile(path); !steps.empty()) return steps;
  }
  return {};
}

std::vector<wire::StepView> StepsOf(Api& api, const wire::JobDetail& job) {
  if (!job.steps.empty() || !job.start_time || job.end_time) return job.steps;
  // Another node of the job also has a list, but only of the steps with tasks there.
  if (!api.is_remote() && job.allocations.size() < 2) {
    if (auto here = StepsOf(job.id, job.user); !here.empty())
      return wire::StepViewsOf(here, kNoTime, true, job.allocations);
  }
  if (job.node.empty()) return {};
  auto there = api.Steps(ToString(job.id));
  return there ? *std::move(there) : std::vector<wire::StepView>();
}

std::string StepsText(const std::vector<wire::StepView>& steps, double now, const std::string& controller) {
  if (steps.empty()) return "";
  std::string out = "steps\n";
  const std::size_t first = steps.size() > kStepsShown ? steps.size() - kStepsShown : 0;
  if (const std::int64_t before = steps[first].number; before > 0)
    out += "  ... " + std::to_string(before) + " before\n";
  for (std::size_t i = first; i < steps.size(); ++i) {
    const wire::StepView& step = steps[i];
    std::string state = step.state == "cut_off" ? "ended with the job" : step.state;
    if (step.exit_code) state += ", exit code " + std::to_string(*step.exit_code);
    out += "  " + std::to_string(step.number) + "  " + state + "  " + Plural(step.tasks, "task");
    if (!step.allocations.empty()) out += "  on " + AllocationsText(step.allocations, controller);
    else if (!step.gpus.empty()) out += "  GPUs " + step.gpus;
    if (const std::string time = RunTime(step, now); !time.empty()) out += "  " + time;
    out += "  " + (step.command.empty() ? step.name : step.command);
    if (!step.command.empty() && IsCalledOtherwise(step)) out += "  (" + step.name + ")";
    out += "\n";
    out += MapText(step, controller);
  }
  return out;
}

Status ApplyToStep(JobId job, const std::string& user, const StepChange& change) {
  const auto outcome = [](int code) -> Status {
    if (code == 0) return {};
    if (code == kNoStepAnswer)
      return Error{ErrorCode::kTimedOut, "no answer; the job may have been started by an earlier release"};
    return NotFound("Invalid job step id specified");
  };
  for (const std::string& path : ListsOf(job, user)) {
    if (const auto code = ChangeStep(path + ".sock", change)) return outcome(*code);
  }
  DIVVY_TRY(const Descriptor far, ReachSteps(ToString(job), true));
  return outcome(ChangeStepAt(far.get(), change));
}

}  // namespace divvy::cli
