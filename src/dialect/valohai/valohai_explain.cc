#include "base/text.h"
#include "dialect/options/quantities.h"
#include "dialect/valohai/valohai.h"

namespace divvy::dialect {
namespace {

std::string Row(std::string_view title, const std::string& value) {
  constexpr std::size_t kWidth = 14;
  std::string out = "  " + std::string(title);
  out.append(title.size() < kWidth ? kWidth - title.size() : 1, ' ');
  return out + value + "\n";
}

/// Returns a request with placeholders for missing values, so that the whole step can be shown.
ExecutionRequest Complete(const ValohaiStep& step, std::vector<std::string>& missing) {
  ExecutionRequest request;
  for (const ValohaiParameter& parameter : step.parameters) {
    if (parameter.defaults || parameter.is_optional) continue;
    request.parameters[parameter.name] = {};
    missing.push_back("--" + parameter.name + "=VALUE");
  }
  for (const ValohaiInput& input : step.inputs) {
    if (!input.defaults.empty() || input.is_optional) continue;
    request.inputs[input.name] = {};
    missing.push_back("--" + input.name + "=PATH");
  }
  for (const ValohaiVariable& variable : step.variables) {
    if (variable.value || variable.is_optional) continue;
    request.variables.emplace_back(variable.name, "");
    missing.push_back("--var " + variable.name + "=VALUE");
  }
  return request;
}

void ExplainStep(const ValohaiProject& project, const ValohaiStep& step, ScriptExplanation& out) {
  std::vector<std::string> missing;
  ExecutionRequest request = Complete(step, missing);
  ParseContext around;
  auto spec = MakeExecution(project, step.name, request, around);
  out.text += "step " + step.name + "\n";
  if (!spec) {
    out.text += Row("error", spec.error().message);
    out.had_errors = true;
    return;
  }
  bool sets_gpus = false;
  for (const ValohaiVariable& variable : step.variables) sets_gpus = sets_gpus || variable.name == "VH_GPUS";
  out.text += Row("asks for", Plural(spec->request.gpus, "GPU") +
                                  (sets_gpus ? " (VH_GPUS)" : " (VH_GPUS is not set: 1 on a node with GPUs)"));
  if (spec->request.cpus > 0) out.text += Row("", Plural(spec->request.cpus, "CPU"));
  if (spec->request.memory.count() > 0) out.text += Row("", FormatSize(spec->request.memory) + " of memory");
  if (spec->time_limit.count() > 0) out.text += Row("time limit", FormatDuration(spec->time_limit));
  for (const std::string& command : step.commands) {
    std::map<std::string, std::vector<std::string>> values;
    for (const ValohaiParameter& parameter : step.parameters) {
      if (parameter.defaults) values[parameter.name] = *parameter.defaults;
    }
    out.text += Row("runs", std::string(Trim(FillValohaiCommand(command, step, values))));
  }
  for (const ValohaiInput& input : step.inputs) {
    out.text += Row("input", input.name + (input.defaults.empty() ? "" : " from " + Join(input.defaults, ", ")));
  }
  for (const std::string& note : spec->notes) out.text += Row("note", note);
  out.text += Row("run it", "divvy vh exec run " + ShellQuote(step.name) + " --adhoc" + (missing.empty() ? "" : " ") +
                                Join(missing, " "));
}

}  // namespace

ScriptExplanation ExplainValohai(std::string_view text, std::string_view path) {
  ScriptExplanation out;
  ValohaiReading reading = ReadValohaiYaml(text, path);
  for (const ValohaiProblem& problem : reading.problems) {
    out.had_errors = out.had_errors || !problem.is_warning;
    out.text += std::string(problem.is_warning ? "warning: " : "error: ") + FormatProblem(path, problem) + "\n";
  }
  if (out.had_errors) return out;
  const ValohaiProject& project = reading.project;
  for (const ValohaiStep& step : project.steps) ExplainStep(project, step, out);
  for (const ValohaiTask& task : project.tasks) {
    out.text += "task " + task.name + "\n" + Row("tries", "step " + task.step + ", " + task.type);
    ExecutionRequest request;
    auto executions = MakeTask(project, task.name, request, ParseContext{});
    out.text += executions ? Row("makes", Plural(static_cast<std::int64_t>(executions->size()), "execution"))
                           : Row("needs", executions.error().message);
    out.text += Row("run it", "divvy vh task run " + ShellQuote(task.name) + " --adhoc");
  }
  if (!project.pipelines.empty()) out.text += "note: pipelines are only checked; run their steps one after the other\n";
  if (!project.endpoints.empty()) out.text += "note: endpoints are only checked\n";
  return out;
}

}  // namespace divvy::dialect
