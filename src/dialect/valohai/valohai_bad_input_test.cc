// The kinds of tests/bad_input/valohai.txt: a wrong valohai.yaml, or a wrong request to a right one.
#include "dialect/options/bad_input.h"
#include "dialect/options/test_surroundings.h"
#include "dialect/valohai/valohai.h"

namespace divvy::dialect {
namespace valohai_bad_input_test {

template <typename T>
std::optional<std::string> ErrorOf(const Result<T>& result) {
  if (result) return std::nullopt;
  return result.error().message;
}

constexpr std::string_view kStep = R"(- step:
    name: train
    image: img
    command: python train.py {parameters}
    parameters:
      - {name: lr, type: float, default: 0.1, min: 0, max: 1}
      - {name: epochs, type: integer, default: 3}
      - {name: mode, default: fast, choices: [fast, slow]}
      - {name: aug, type: flag}
    inputs:
      - {name: data, optional: true}
)";

/// Parses the text and makes an execution of its first step, or of its first task.
std::optional<std::string> ErrorOfYaml(const std::string& text, const ExecutionRequest& request) {
  auto project = ParseValohaiYaml(text, "valohai.yaml");
  auto explained = ExplainValohai(text, "valohai.yaml");
  if (!project)
    return explained.had_errors ? project.error().message : "EXPLAIN FINDS NOTHING: " + project.error().message;
  if (!project->tasks.empty())
    return ErrorOf(MakeTask(*project, project->tasks.front().name, request, TestParseContext()));
  if (project->steps.empty()) return ErrorOf(MakeExecution(*project, "train", request, TestParseContext()));
  return ErrorOf(MakeExecution(*project, project->steps.front().name, request, TestParseContext()));
}

std::pair<std::string, std::string> SplitPair(const std::string& text) {
  auto equals = text.find('=');
  return {text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
}

const BadInputKind kKinds[] = {
    {"valohai", [](const std::string& input) { return ErrorOfYaml(input, {}); }},
    // Lines below "- step:" of a step that already has a name, image and command.
    {"valohai-step",
     [](const std::string& input) {
       return ErrorOfYaml("- step:\n    name: train\n    image: img\n    command: go\n    " + input + "\n", {});
     }},
    // Lines below "- task:" of a task for kStep.
    {"valohai-task",
     [](const std::string& input) {
       return ErrorOfYaml(std::string(kStep) + "- task:\n    name: sweep\n    step: train\n    " + input + "\n", {});
     }},
    {"valohai-var",
     [](const std::string& input) {
       ExecutionRequest request;
       request.variables = {SplitPair(input)};
       return ErrorOfYaml(std::string(kStep), request);
     }},
    {"valohai-parameter",
     [](const std::string& input) {
       ExecutionRequest request;
       auto [name, value] = SplitPair(input);
       request.parameters[name] = {value};
       return ErrorOfYaml(std::string(kStep), request);
     }},
    {"valohai-input",
     [](const std::string& input) {
       ExecutionRequest request;
       auto [name, value] = SplitPair(input);
       request.inputs[name] = {value};
       return ErrorOfYaml(std::string(kStep), request);
     }},
    {"valohai-find",
     [](const std::string& input) {
       auto project = ParseValohaiYaml(
           "- step: {name: train-a, image: i, command: x}\n- step: {name: train-b, image: i, command: x}\n",
           "valohai.yaml");
       return ErrorOf(FindValohaiStep(*project, input));
     }},
    {"valohai-time", [](const std::string& input) { return ErrorOf(ParseValohaiDuration(input)); }},
    {"valohai-values", [](const std::string& input) { return ErrorOf(ParseValohaiValues(input, "values.json")); }},
};

}  // namespace valohai_bad_input_test
}  // namespace divvy::dialect
