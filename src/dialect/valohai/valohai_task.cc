// A task's executions: one for each element of its grid, random draws or sets. They are jobs of their own, or, if their
// parameters allow it, the elements of one array, which is a sweep.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "dialect/valohai/valohai.h"
#include "sweep/draws.h"
#include "sweep/sweep_rule.h"

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

/// The parameter values of each execution of the task.
Result<std::vector<Set>> SetsOf(const ValohaiTask& task, const std::string& who) {
  if (task.type == "distributed") {
    return FailedPrecondition(who +
                              "a distributed task needs executions that start together on several nodes; run the "
                              "step on one node with VH_GPUS instead");
  }
  bool is_manual = task.type == "manual_search" || task.parameters.empty();
  if (is_manual && task.parameter_sets.empty()) return InvalidArgument(who + "manual_search needs 'parameter-sets'");
  bool is_random = task.type == "random_search" || task.type == "bayesian_tpe";
  std::vector<Set> sets = is_manual ? task.parameter_sets : is_random ? RandomSets(task) : GridSets(task);
  if (sets.size() > kMaxExecutions) {
    return LimitExceeded(who +
                         "makes more than 10000 executions; use fewer values, or random_search with execution-count");
  }
  return sets;
}

int MostAtOnce(const ValohaiTask& task) {
  const bool has_both = task.batch_size > 0 && task.queued_at_most > 0;
  return has_both ? std::min(task.batch_size, task.queued_at_most) : std::max(task.batch_size, task.queued_at_most);
}

void AddTaskNotes(const ValohaiTask& task, JobSpec& spec) {
  if (task.type == "bayesian_tpe")
    spec.notes.push_back("bayesian_tpe: values are drawn at random, without an optimiser");
  if (!task.stop_condition.empty()) spec.notes.push_back("stop-condition is not supported");
  if (!task.on_child_error.empty() && task.on_child_error != "continue-and-complete") {
    spec.notes.push_back("on-child-error: the other executions continue when one fails");
  }
}

/// Returns whether the value means the same wherever it takes the place of {NAME} in a script: for the shell, with and
/// without quotes, between double quotes of JSON, or, for a number, as a value of JSON.
bool IsPlainValue(std::string_view value, ValohaiType type) {
  if (type == ValohaiType::kFlag || ShellQuote(value) != value) return false;
  if (type == ValohaiType::kString) return true;
  std::string_view digits = value.substr(value.starts_with('-') ? 1 : 0);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool has_extra_zero = digits.size() > 1 && digits[0] == '0' && is_digit(digits[1]);
  const bool is_bare = !digits.empty() && is_digit(digits.front()) && is_digit(digits.back()) && !has_extra_zero;
  return is_bare && digits.find(".e") == std::string_view::npos && digits.find(".E") == std::string_view::npos &&
         ParseNumber(value).has_value() && digits.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
}

/// Returns why the parameter cannot be a column of an array; empty if it can.
std::string WhyNoColumn(const ValohaiStep& step, const std::string& name, const std::vector<Set>& sets) {
  JobSpec scratch;
  if (!ParseParameter(name + "=1", scratch)) return "its name is not allowed for a parameter of an array";
  const auto parameter = std::ranges::find(step.parameters, name, &ValohaiParameter::name);
  if (parameter == step.parameters.end()) return "the step has no such parameter";
  if (parameter->type == ValohaiType::kFlag) return "it is a flag";
  for (const Set& set : sets) {
    const auto value = set.find(name);
    if (value == set.end()) return "some parameter sets do not have it";
    if (!IsPlainValue(value->second, parameter->type))
      return "its value '" + OneLine(value->second.substr(0, 64)) + "' needs quotes";
  }
  return "";
}

/// Puts {NAME} in the places of the values that differ.
void NamePlaces(const ExecutionRequest& request, std::string& text) {
  for (const std::string& name : request.varied) {
    const std::string mark = VariedMark(name);
    for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos;)
      text.replace(at, mark.size(), "{" + name + "}");
  }
}

}  // namespace

std::string VariedMark(std::string_view name) { return "@VH-VARIED:" + std::string(name) + "@"; }

std::string ExecutionOfTask(const std::string& task_id, std::size_t index) {
  std::array<char, 17> last{};
  std::snprintf(last.data(), last.size(), "%012zx", index + 1);
  return task_id.substr(0, task_id.rfind('-') + 1) + last.data();
}

Result<std::vector<JobSpec>> MakeTask(const ValohaiProject& project, std::string_view task_name,
                                      const ExecutionRequest& request, const ParseContext& around) {
  DIVVY_TRY(const ValohaiTask* task, FindValohaiTask(project, task_name));
  DIVVY_TRY(const std::vector<Set> sets, SetsOf(*task, project.path + ": task '" + task->name + "': "));
  std::vector<JobSpec> out;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    ExecutionRequest one = request;
    for (const auto& [name, value] : sets[i]) one.parameters[name] = {value};
    if (!one.root.empty()) one.root += "/" + std::to_string(i);
    if (!one.execution_id.empty()) {
      one.execution_id = ExecutionOfTask(one.execution_id, i);
      if (one.task_id.empty()) one.task_id = request.execution_id;
    }
    if (one.title.empty()) {
      one.title = task->name;
      for (const auto& [name, value] : sets[i]) one.title += " " + name + "=" + value;
    }
    DIVVY_TRY(JobSpec spec, MakeExecution(project, task->step, one, around));
    spec.group = "task-" + (request.execution_id.empty() ? task->name : request.execution_id);
    spec.group_limit = MostAtOnce(*task);
    if (i == 0) AddTaskNotes(*task, spec);
    else spec.notes.clear();  // The first execution already has these notes.
    out.push_back(std::move(spec));
  }
  return out;
}

Result<JobSpec> MakeTaskSweep(const ValohaiProject& project, std::string_view task_name,
                              const ExecutionRequest& request, const ParseContext& around) {
  DIVVY_TRY(const ValohaiTask* task, FindValohaiTask(project, task_name));
  const std::string who = project.path + ": task '" + task->name + "': ";
  DIVVY_TRY(const std::vector<Set> sets, SetsOf(*task, who));
  DIVVY_TRY(const ValohaiStep* step, FindValohaiStep(project, task->step));
  if (sets.empty() || sets.front().empty()) return FailedPrecondition(who + "its executions have no parameters");
  std::vector<Parameter> columns;
  ExecutionRequest whole = request;
  std::string values;
  for (const auto& [name, first] : sets.front()) {
    if (const std::string why = WhyNoColumn(*step, name, sets); !why.empty())
      return FailedPrecondition(who + "parameter '" + name + "': " + why);
    columns.push_back({name, {}, 0});
    for (const Set& set : sets) columns.back().values.push_back(set.at(name));
    whole.varied.insert(name);
    values += " " + name + "=" + VariedMark(name);
  }
  if (std::ranges::any_of(sets, [&](const Set& set) { return set.size() != columns.size(); }))
    return FailedPrecondition(who + "some parameter sets have other parameters");
  if (whole.task_id.empty()) whole.task_id = request.execution_id;
  if (whole.title.empty()) whole.title = task->name + values;
  DIVVY_TRY(JobSpec spec, MakeExecution(project, task->step, whole, around));
  for (const std::string& name : whole.varied) {
    // Braces that belong to the step must not be filled with values of the sweep.
    if (spec.script.find("{" + name + "}") != std::string::npos)
      return FailedPrecondition(who + "the step contains '{" + name + "}', which an array would replace");
    if (spec.script.find("$" + VariedMark(name)) != std::string::npos)
      return FailedPrecondition(who + "the step passes parameter '" + name + "' after a '$'");
  }
  NamePlaces(whole, spec.script);
  for (auto& [key, label] : spec.labels) NamePlaces(whole, label);
  spec.comment = request.title;
  spec.parameters = std::move(columns);
  spec.group = "task-" + (request.execution_id.empty() ? task->name : request.execution_id);
  AddTaskNotes(*task, spec);
  sweep::SweepRule rule;
  rule.metric = task->target_metric;
  rule.goal = sweep::Goal::kMaximize;
  rule.parallel = MostAtOnce(*task);
  rule.method = task->type;
  DIVVY_CHECK(sweep::CheckRule(rule));
  spec.labels[std::string(sweep::kRuleLabel)] = sweep::FormatRule(rule);
  return spec;
}

}  // namespace divvy::dialect
