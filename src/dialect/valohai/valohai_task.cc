// A task's executions: one for each element of its grid, random draws or sets.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "dialect/valohai/valohai.h"
#include "sweep/draws.h"

namespace divvy::dialect {
namespace {

constexpr std::size_t kMaxExecutions = 10'000;
using Set = std::map<std::string, std::string>;

using sweep::Draws;

Draws DrawsOf(const ValohaiTask& task, const ValohaiTaskParameter& parameter) {
  return Draws(parameter.seed ? static_cast<std::uint64_t>(*parameter.seed)
                              : sweep::SeedOf(task.name + "/" + parameter.name));
}

std::string Draw(const ValohaiTaskParameter& parameter, Draws& draws) {
  if (!parameter.is_random) return parameter.values[draws.Next() % parameter.values.size()];
  double unit = draws.Unit();
  double value = parameter.min + (parameter.max - parameter.min) * unit;
  if (parameter.distribution == "log-uniform") {
    value = std::exp(std::log(parameter.min) + (std::log(parameter.max) - std::log(parameter.min)) * unit);
  }
  if (parameter.distribution == "integer")
    value = std::floor(parameter.min + (parameter.max - parameter.min + 1) * unit);
  if (parameter.is_integer) value = std::round(value);
  std::array<char, 40> out{};
  std::snprintf(out.data(), out.size(), "%.12g", value);
  return out.data();
}

std::vector<Set> RandomSets(const ValohaiTask& task) {
  int count = task.execution_count;
  for (const ValohaiTaskParameter& parameter : task.parameters) {
    if (task.execution_count == 0) count = std::max(count, parameter.count);
  }
  std::vector<Set> sets(static_cast<std::size_t>(std::clamp(count, 1, static_cast<int>(kMaxExecutions) + 1)));
  for (const ValohaiTaskParameter& parameter : task.parameters) {
    Draws draws = DrawsOf(task, parameter);
    for (Set& set : sets) set[parameter.name] = Draw(parameter, draws);
  }
  return sets;
}

std::vector<Set> GridSets(const ValohaiTask& task) {
  std::vector<Set> sets(1);
  for (const ValohaiTaskParameter& parameter : task.parameters) {
    std::vector<std::string> values = parameter.values;
    Draws draws = DrawsOf(task, parameter);
    for (int i = 0; parameter.is_random && i < parameter.count; ++i) values.push_back(Draw(parameter, draws));
    if (sets.size() * values.size() > kMaxExecutions) return std::vector<Set>(kMaxExecutions + 1);
    std::vector<Set> product;
    for (const Set& set : sets) {
      for (const std::string& value : values) {
        product.push_back(set);
        product.back()[parameter.name] = value;
      }
    }
    sets = std::move(product);
  }
  return sets;
}

}  // namespace

Result<std::vector<JobSpec>> MakeTask(const ValohaiProject& project, std::string_view task_name,
                                      const ExecutionRequest& request, const ParseContext& around) {
  DIVVY_TRY(const ValohaiTask* task, FindValohaiTask(project, task_name));
  std::string who = project.path + ": task '" + task->name + "': ";
  if (task->type == "distributed") {
    return FailedPrecondition(who +
                              "a distributed task needs executions that start together on several nodes; run the "
                              "step on one node with VH_GPUS instead");
  }
  bool is_manual = task->type == "manual_search" || task->parameters.empty();
  if (is_manual && task->parameter_sets.empty()) return InvalidArgument(who + "manual_search needs 'parameter-sets'");
  bool is_random = task->type == "random_search" || task->type == "bayesian_tpe";
  std::vector<Set> sets = is_manual ? task->parameter_sets : is_random ? RandomSets(*task) : GridSets(*task);
  if (sets.size() > kMaxExecutions) {
    return LimitExceeded(who +
                         "makes more than 10000 executions; use fewer values, or random_search with execution-count");
  }
  std::vector<JobSpec> out;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    ExecutionRequest one = request;
    for (const auto& [name, value] : sets[i]) one.parameters[name] = {value};
    if (!one.root.empty()) one.root += "/" + std::to_string(i);
    if (!one.execution_id.empty()) {
      // The last of a UUID's five groups distinguishes the executions of a task.
      std::array<char, 17> last{};
      std::snprintf(last.data(), last.size(), "%012zx", i + 1);
      one.execution_id = one.execution_id.substr(0, one.execution_id.rfind('-') + 1) + last.data();
      if (one.task_id.empty()) one.task_id = request.execution_id;
    }
    if (one.title.empty()) {
      one.title = task->name;
      for (const auto& [name, value] : sets[i]) one.title += " " + name + "=" + value;
    }
    DIVVY_TRY(JobSpec spec, MakeExecution(project, task->step, one, around));
    int cap = task->batch_size;
    if (task->queued_at_most > 0 && (cap == 0 || task->queued_at_most < cap)) cap = task->queued_at_most;
    spec.group = "task-" + (request.execution_id.empty() ? task->name : request.execution_id);
    spec.group_limit = cap;
    if (i == 0) {
      if (task->type == "bayesian_tpe")
        spec.notes.push_back("bayesian_tpe: values are drawn at random, without an optimiser");
      if (!task->stop_condition.empty()) spec.notes.push_back("stop-condition is not supported");
      if (!task->on_child_error.empty() && task->on_child_error != "continue-and-complete") {
        spec.notes.push_back("on-child-error: the other executions continue when one fails");
      }
    } else {
      spec.notes.clear();  // The first execution already has these notes.
    }
    out.push_back(std::move(spec));
  }
  return out;
}

}  // namespace divvy::dialect
