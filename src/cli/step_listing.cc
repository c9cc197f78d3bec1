#include "cli/step_listing.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "cli/shims/slurm_common.h"
#include "dialect/quantities.h"
#include "platform/places.h"
#include "platform/step_client.h"
#include "platform/step_list_file.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kStepsShown = 20;
constexpr std::size_t kTasksShown = 64;

/// A daemon without root runs all jobs as itself, and so do its users.
std::vector<std::string> ListsOf(JobId job, const std::string& user) {
  const std::string runs = FindPlaces().runs;
  const std::int64_t own = ::geteuid();
  const std::int64_t uid = slurm::UserId(user).value_or(own);
  std::vector<std::string> paths = {StepListPath(runs, uid, job.value())};
  if (uid != own) paths.push_back(StepListPath(runs, own, job.value()));
  return paths;
}

std::string RunTime(const StepLine& step, Time now) {
  if (step.started == kNoTime) return "";
  const Duration ran = (step.state == StepState::kEnded ? step.ended : now) - step.started;
  return dialect::FormatDuration(std::chrono::floor<std::chrono::seconds>(std::max(ran, Duration(0))));
}

}  // namespace

std::vector<StepLine> StepsOf(JobId job, const std::string& user) {
  for (const std::string& path : ListsOf(job, user)) {
    if (auto steps = ReadStepListFile(path); !steps.empty()) return steps;
  }
  return {};
}

std::string StepsText(const std::vector<StepLine>& steps, Time now) {
  if (steps.empty()) return "";
  std::string out = "steps\n";
  const std::size_t first = steps.size() > kStepsShown ? steps.size() - kStepsShown : 0;
  if (first > 0) out += "  ... " + std::to_string(first) + " before\n";
  for (std::size_t i = first; i < steps.size(); ++i) {
    const StepLine& step = steps[i];
    std::string state(StepStateText(step.state));
    if (step.state == StepState::kEnded) state += ", exit code " + std::to_string(step.code);
    out += "  " + std::to_string(step.number) + "  " + state + "  " + Plural(step.tasks, "task");
    if (!step.gpus.empty()) out += "  GPUs " + step.gpus;
    if (const std::string time = RunTime(step, now); !time.empty()) out += "  " + time;
    out += "  " + step.command + "\n";
    if (step.state == StepState::kEnded) continue;
    for (std::size_t rank = 0; rank < std::min(step.map.size(), kTasksShown); ++rank) {
      const StepTaskLine& task = step.map[rank];
      out += "     rank " + std::to_string(rank);
      if (!task.gpus.empty()) out += "  GPU " + task.gpus;
      if (!task.cores.empty()) out += "  cores " + task.cores;
      out += "\n";
    }
  }
  return out;
}

Status SignalStep(JobId job, const std::string& user, StepNumber step, int signal) {
  for (const std::string& path : ListsOf(job, user)) {
    const auto code = StopStep(path + ".sock", static_cast<int>(step), signal);
    if (!code) continue;
    if (*code == 0) return {};
    return NotFound("Invalid job step id specified");
  }
  return NotFound("Invalid job step id specified");
}

}  // namespace divvy::cli
