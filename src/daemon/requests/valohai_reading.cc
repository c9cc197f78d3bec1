#include "daemon/requests/valohai_reading.h"

#include "base/time.h"
#include "dialect/valohai/valohai.h"

namespace divvy {
namespace {

constexpr std::string_view kFile = "valohai.yaml";

std::string NameOf(dialect::ValohaiType type) {
  switch (type) {
    case dialect::ValohaiType::kInteger:
      return "integer";
    case dialect::ValohaiType::kFloat:
      return "float";
    case dialect::ValohaiType::kFlag:
      return "flag";
    case dialect::ValohaiType::kString:
      break;
  }
  return "string";
}

wire::ValohaiParameterView ViewOf(const dialect::ValohaiParameter& parameter) {
  wire::ValohaiParameterView view;
  view.name = parameter.name;
  view.type = NameOf(parameter.type);
  view.defaults = parameter.defaults;
  view.is_optional = parameter.is_optional;
  view.is_multiple = parameter.multiple != dialect::ValohaiMultiple::kNone;
  view.min = parameter.min;
  view.max = parameter.max;
  view.choices = parameter.choices;
  view.description = parameter.description;
  return view;
}

wire::ValohaiStepView ViewOf(const dialect::ValohaiStep& step) {
  wire::ValohaiStepView view;
  view.name = step.name;
  view.image = step.image;
  view.description = step.description;
  view.environment = step.environment;
  view.time_limit_s = ToSeconds(step.time_limit);
  view.commands = step.commands;
  for (const auto& parameter : step.parameters) view.parameters.push_back(ViewOf(parameter));
  for (const auto& input : step.inputs)
    view.inputs.push_back({input.name, input.defaults, input.is_optional, input.description});
  for (const auto& variable : step.variables)
    view.variables.push_back({variable.name, variable.value, variable.is_optional});
  return view;
}

wire::ValohaiTaskView ViewOf(const dialect::ValohaiTask& task) {
  wire::ValohaiTaskView view{task.name, task.step, task.type, {}};
  for (const auto& parameter : task.parameters) view.parameters.push_back(parameter.name);
  if (view.parameters.empty() && !task.parameter_sets.empty()) {
    for (const auto& [name, value] : task.parameter_sets.front()) view.parameters.push_back(name);
  }
  return view;
}

Result<JobSpec> ExecutionOf(const dialect::ValohaiProject& project, const wire::ValohaiQuestion& question,
                            const ValohaiPlace& place) {
  if (!question.directory.empty() && question.directory.front() != '/')
    return InvalidArgument("the project's directory is '" + question.directory + "'; give an absolute path");
  dialect::ParseContext around = place.around;
  around.directory = question.directory.empty() ? around.home : question.directory;
  dialect::ExecutionRequest request;
  request.parameters = question.parameters;
  request.inputs = question.inputs;
  request.variables.assign(question.variables.begin(), question.variables.end());
  request.title = question.title;
  request.project = around.directory.substr(around.directory.rfind('/') + 1);
  request.execution_id = place.execution_id;
  request.root = place.root;
  request.default_gpus = place.default_gpus;
  return dialect::MakeExecution(project, question.step, request, around);
}

}  // namespace

wire::ValohaiAnswer ReadValohai(const wire::ValohaiQuestion& question, const ValohaiPlace& place) {
  const dialect::ValohaiReading reading = dialect::ReadValohaiYaml(question.text, kFile);
  wire::ValohaiAnswer answer;
  bool is_whole = true;
  for (const auto& problem : reading.problems) {
    answer.problems.push_back({problem.line, problem.is_warning, problem.text});
    is_whole = is_whole && problem.is_warning;
  }
  if (!is_whole) return answer;
  for (const auto& step : reading.project.steps) answer.steps.push_back(ViewOf(step));
  for (const auto& task : reading.project.tasks) answer.tasks.push_back(ViewOf(task));
  if (question.step.empty()) return answer;
  if (auto spec = ExecutionOf(reading.project, question, place)) answer.spec = *std::move(spec);
  else answer.refusal = spec.error().message;
  return answer;
}

}  // namespace divvy
