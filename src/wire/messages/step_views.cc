#include "wire/messages/step_views.h"

#include "base/text.h"

namespace divvy::wire {
namespace {

std::optional<double> SecondsOf(Time time) { return time == kNoTime ? std::nullopt : std::optional(ToSeconds(time)); }

void TellTasks(const StepLine& step, const std::vector<AllocationView>& allocations, StepView& view) {
  for (const StepTaskLine& task : step.map) {
    StepTaskView& told = view.task_map.emplace_back();
    told.rank = static_cast<std::int64_t>(task.rank);
    if (task.node_index && *task.node_index < allocations.size()) told.node = allocations[*task.node_index].node;
    told.cores = task.cores;
    if (task.gpus.empty()) continue;
    for (const std::string_view gpu : Split(task.gpus, '+')) {
      if (const auto index = ParseInteger(gpu)) told.gpus.push_back(*index);
    }
  }
}

}  // namespace

std::vector<StepView> StepViewsOf(const std::vector<StepLine>& steps, Time job_end, bool has_commands,
                                  const std::vector<AllocationView>& allocations) {
  std::vector<StepView> views;
  for (const StepLine& step : steps) {
    StepView view;
    view.number = step.number;
    view.name = StepName(step);
    view.state = StepStateText(step.state);
    view.tasks = step.tasks;
    view.gpus = step.gpus;
    view.time_limit_s = ToSeconds(step.time_limit);
    view.start_time = SecondsOf(step.started);
    if (step.state == StepState::kEnded) {
      view.end_time = SecondsOf(step.ended);
      view.exit_code = step.code;
      if (step.was_cancelled && step.code > 128) view.state = "cancelled";
    } else if (job_end != kNoTime) {
      view.state = "cut_off";
      view.end_time = SecondsOf(job_end);
    }
    if (has_commands) view.command = step.command;
    for (const StepMachine& machine : step.machines) {
      if (machine.node_index >= allocations.size()) continue;
      AllocationView& allocation = view.allocations.emplace_back();
      allocation.node = allocations[machine.node_index].node;
      allocation.tasks = machine.tasks;
      for (const int gpu : machine.gpus.ToVector()) allocation.gpus.push_back(gpu);
    }
    if (!view.end_time) TellTasks(step, allocations, view);
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace divvy::wire
