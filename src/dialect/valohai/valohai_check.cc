// Checks a project whose keys are all known: duplicates, defaults outside choices, dangling references.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <set>

#include "base/text.h"
#include "dialect/options/quoted.h"
#include "dialect/valohai/valohai.h"

namespace divvy::dialect {
namespace {

/// The first few names, so that the message stays short.
std::string Listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    std::string shown = Quoted(names[i]);
    out += (i > 0 ? ", " : "") + shown.substr(1, shown.size() - 2);
  }
  return names.size() > kMost ? out + ", ..." : out;
}

class Checker {
 public:
  explicit Checker(std::vector<ValohaiProblem>& problems) : problems_(problems) {}

  // Warnings leave room for errors, since a file with an error must not pass.
  void Error(int line, std::string text) {
    if (problems_.size() < 2 * kMostProblems) problems_.push_back({line, false, std::move(text)});
  }
  void Warning(int line, std::string text) {
    if (problems_.size() < kMostProblems) problems_.push_back({line, true, std::move(text)});
  }

  /// Complains about duplicate names.
  template <typename T>
  void Unique(const std::vector<T>& things, std::string_view kind, const std::string& owner) {
    std::set<std::string> seen;
    for (const T& thing : things) {
      if (!thing.name.empty() && !seen.insert(thing.name).second) {
        Error(thing.line, owner + "duplicate " + std::string(kind) + "s named " + Quoted(thing.name));
      }
    }
  }

  void Step(const ValohaiStep& step) {
    std::string owner = "step " + Quoted(step.name) + ": ";
    Unique(step.parameters, "parameter", owner);
    Unique(step.inputs, "input", owner);
    Unique(step.variables, "environment variable", owner);
    for (const ValohaiParameter& parameter : step.parameters) Parameter(parameter, owner);
    for (const ValohaiInput& input : step.inputs) Input(input, step, owner);
    for (const ValohaiVariable& variable : step.variables) Variable(variable, owner);
    if (!step.preset.empty() && step.environment.empty()) {
      Error(step.line, owner + "'runtime-config-preset' needs 'environment'");
    }
    if (step.cpus_min && step.cpus_max && *step.cpus_min > *step.cpus_max) {
      Error(step.line, owner + "resources: cpu: min is above max");
    }
    if (step.memory_mb_min && step.memory_mb_max && *step.memory_mb_min > *step.memory_mb_max) {
      Error(step.line, owner + "resources: memory: min is above max");
    }
    bool is_any_written = std::any_of(step.commands.begin(), step.commands.end(),
                                      [](const std::string& command) { return !Trim(command).empty(); });
    if (!is_any_written && !step.commands.empty()) Error(step.line, owner + "every command is empty");
    Placeholders(step, owner);
  }

  void Task(const ValohaiTask& task, const ValohaiProject& project) {
    std::string owner = "task " + Quoted(task.name) + ": ";
    Unique(task.parameters, "parameter", owner);
    auto step = std::find_if(project.steps.begin(), project.steps.end(),
                             [&](const ValohaiStep& candidate) { return candidate.name == task.step; });
    if (step == project.steps.end()) {
      if (!task.step.empty()) Error(task.line, owner + "there is no step " + Quoted(task.step));
      return;
    }
    auto check = [&](int line, const std::string& name, const std::vector<std::string>& values) {
      auto parameter = std::find_if(step->parameters.begin(), step->parameters.end(),
                                    [&](const ValohaiParameter& candidate) { return candidate.name == name; });
      if (parameter == step->parameters.end()) {
        return Error(line, owner + "step " + Quoted(step->name) + " has no parameter " + Quoted(name));
      }
      for (const std::string& value : values) {
        if (auto status = CheckValohaiValue(*parameter, value); !value.empty() && !status)
          Error(line, owner + status.error().message);
      }
    };
    for (const ValohaiTaskParameter& parameter : task.parameters)
      check(parameter.line, parameter.name, parameter.values);
    for (const auto& set : task.parameter_sets) {
      for (const auto& [name, value] : set) check(task.line, name, {value});
    }
  }

  void Pipeline(const ValohaiPipeline& pipeline, const ValohaiProject& project) {
    std::string owner = "pipeline " + Quoted(pipeline.name) + ": ";
    Unique(pipeline.nodes, "node", owner);
    for (const ValohaiNode& node : pipeline.nodes) Node(node, owner + "node " + Quoted(node.name) + ": ", project);
    for (const ValohaiEdge& edge : pipeline.edges) {
      Endpoint(edge.source, edge.line, pipeline, owner, {"output", "input", "parameter", "metadata"});
      Endpoint(edge.target, edge.line, pipeline, owner, {"input", "parameter", "file", "deployment"});
    }
  }

  void Endpoint(const ValohaiEndpoint& endpoint) {
    std::string owner = "endpoint " + Quoted(endpoint.name) + ": ";
    bool is_plain = std::all_of(endpoint.name.begin(), endpoint.name.end(), [](unsigned char c) {
      return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
    });
    if (!is_plain) Error(endpoint.line, owner + "a name may contain only lowercase letters, digits and dashes");
    if (endpoint.server_command.empty() == endpoint.wsgi.empty()) {
      Error(endpoint.line, owner + "needs exactly one of 'server-command' and 'wsgi'");
    }
  }

 private:
  void Parameter(const ValohaiParameter& parameter, const std::string& step) {
    std::string owner = step + "parameter " + Quoted(parameter.name) + ": ";
    bool is_flag = parameter.type == ValohaiType::kFlag;
    if (is_flag && parameter.multiple != ValohaiMultiple::kNone)
      Error(parameter.line, owner + "a flag cannot be multiple");
    if (is_flag && !parameter.choices.empty()) Error(parameter.line, owner + "a flag cannot have choices");
    if (!is_flag && (parameter.pass_true_as || parameter.pass_false_as)) {
      Error(parameter.line, owner + "'pass-true-as' and 'pass-false-as' belong to flags; set 'type: flag'");
    }
    if ((parameter.min || parameter.max) && (is_flag || parameter.type == ValohaiType::kString)) {
      Error(parameter.line, owner + "'min' and 'max' need 'type: integer' or 'type: float'");
    }
    if (parameter.min && parameter.max && *parameter.min > *parameter.max)
      Error(parameter.line, owner + "min is above max");
    if (!parameter.defaults) return;
    if (parameter.defaults->size() > 1 && parameter.multiple == ValohaiMultiple::kNone) {
      Error(parameter.line, owner + "has a list as its default; set 'multiple: repeat' or 'multiple: separate'");
    }
    for (const std::string& value : *parameter.defaults) {
      if (auto status = CheckValohaiValue(parameter, value); !status) {
        Error(parameter.line, step + status.error().message + " (it is the default)");
      }
    }
  }

  void Input(const ValohaiInput& input, const ValohaiStep& step, const std::string& step_owner) {
    std::string owner = step_owner + "input " + Quoted(input.name) + ": ";
    if (input.name.size() > 64) Error(input.line, owner + "a name may have at most 64 characters");
    if (input.name.find('/') != std::string::npos || input.name == "." || input.name == "..") {
      Error(input.line, owner + "the name becomes a directory, so it cannot hold '/' or be '..'");
    }
    if (input.filename.find('/') != std::string::npos) Error(input.line, owner + "'filename' cannot hold '/'");
    if (!input.filename.empty() && input.defaults.size() > 1) {
      Error(input.line, owner + "'filename' names one file, and there are " + std::to_string(input.defaults.size()));
    }
    for (const ValohaiParameter& parameter : step.parameters) {
      if (parameter.name == input.name) {
        Warning(input.line,
                owner + "a parameter has the same name; the option --" + input.name + " sets the parameter");
      }
    }
  }

  void Variable(const ValohaiVariable& variable, const std::string& step) {
    std::string owner = step + "environment variable " + Quoted(variable.name) + ": ";
    bool is_plain = !variable.name.empty() && std::isdigit(static_cast<unsigned char>(variable.name[0])) == 0 &&
                    std::all_of(variable.name.begin(), variable.name.end(),
                                [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (!is_plain)
      Error(variable.line, owner + "a name may contain only letters, digits and '_', and must not begin with a digit");
    if (variable.name == "VH_GPUS" && variable.value && !variable.value->empty()) {
      auto count = ParseInteger(*variable.value);
      if (!count || *count < 0)
        Error(variable.line, owner + Quoted(*variable.value) + " is not a whole number of GPUs");
    }
  }

  // A placeholder that names no parameter stays unchanged. That is right for shell text but may be a mistake.
  void Placeholders(const ValohaiStep& step, const std::string& owner) {
    for (const std::string& command : step.commands) {
      for (std::string_view prefix : {"{parameter:", "{parameter-value:"}) {
        for (auto at = command.find(prefix); at != std::string::npos; at = command.find(prefix, at + 1)) {
          auto end = command.find('}', at);
          if (end == std::string::npos) break;
          std::string name = command.substr(at + prefix.size(), end - at - prefix.size());
          bool is_known = std::any_of(step.parameters.begin(), step.parameters.end(),
                                      [&](const ValohaiParameter& parameter) { return parameter.name == Trim(name); });
          if (!is_known) Warning(step.line, owner + "a command uses the unknown parameter " + Quoted(name));
        }
      }
    }
  }

  void Node(const ValohaiNode& node, const std::string& owner, const ValohaiProject& project) {
    auto has = [](const auto& things, const std::string& name) {
      return std::any_of(things.begin(), things.end(), [&](const auto& thing) { return thing.name == name; });
    };
    if (node.type == "execution" && node.step.empty()) Error(node.line, owner + "an execution node needs 'step'");
    if (node.type == "task" && node.step.empty() == node.task.empty()) {
      Error(node.line, owner + "a task node needs 'step' or 'task', not both");
    }
    if (!node.step.empty() && !has(project.steps, node.step))
      Error(node.line, owner + "there is no step " + Quoted(node.step));
    if (!node.task.empty() && !has(project.tasks, node.task))
      Error(node.line, owner + "there is no task " + Quoted(node.task));
  }

  void Endpoint(const std::string& text, int line, const ValohaiPipeline& pipeline, const std::string& owner,
                std::initializer_list<std::string_view> kinds) {
    auto parts = Split(text, '.');
    if (parts.size() < 3) return Error(line, owner + "edge end " + Quoted(text) + " is not NODE.KIND.KEY");
    bool has_node = std::any_of(pipeline.nodes.begin(), pipeline.nodes.end(),
                                [&](const ValohaiNode& node) { return node.name == parts[0]; });
    if (!has_node) Error(line, owner + "edge end " + Quoted(text) + ": there is no node " + Quoted(parts[0]));
    if (std::find(kinds.begin(), kinds.end(), parts[1]) == kinds.end()) {
      std::vector<std::string> all(kinds.begin(), kinds.end());
      Error(line, owner + "edge end " + Quoted(text) + ": the kind can be " + Join(all, ", "));
    }
  }

  std::vector<ValohaiProblem>& problems_;
};

/// Finds the item with the name, or the only one whose name begins with it, or the only one that contains it.
template <typename T>
Result<const T*> FindByName(const std::vector<T>& things, std::string_view name, std::string_view kind,
                            const std::string& path) {
  std::vector<std::string> all;
  for (const T& thing : things) {
    if (thing.name == name) return &thing;
    all.push_back(thing.name);
  }
  if (things.empty()) return NotFound(path + ": has no " + std::string(kind));
  std::string wanted = ToLower(name);
  for (bool only_prefix : {true, false}) {
    std::vector<const T*> found;
    std::vector<std::string> names;
    for (const T& thing : things) {
      auto at = ToLower(thing.name).find(wanted);
      if (wanted.empty() || at == std::string::npos || (only_prefix && at != 0)) continue;
      found.push_back(&thing);
      names.push_back(thing.name);
    }
    if (found.size() == 1) return found.front();
    if (found.size() > 1) {
      return InvalidArgument(path + ": " + Quoted(name) + " could be the " + std::string(kind) + "s " + Listed(names) +
                             "; write the whole name");
    }
  }
  return NotFound(path + ": there is no " + std::string(kind) + " " + Quoted(name) + "; there is " + Listed(all));
}

}  // namespace

void CheckValohaiProject(const ValohaiProject& project, std::vector<ValohaiProblem>& problems) {
  Checker checker(problems);
  checker.Unique(project.steps, "step", "");
  checker.Unique(project.tasks, "task", "");
  checker.Unique(project.pipelines, "pipeline", "");
  checker.Unique(project.endpoints, "endpoint", "");
  for (const ValohaiStep& step : project.steps) checker.Step(step);
  for (const ValohaiTask& task : project.tasks) checker.Task(task, project);
  for (const ValohaiPipeline& pipeline : project.pipelines) checker.Pipeline(pipeline, project);
  for (const ValohaiEndpoint& endpoint : project.endpoints) checker.Endpoint(endpoint);
}

Result<Duration> ParseValohaiDuration(std::string_view text) {
  std::string_view rest = Trim(text);
  Error error = InvalidArgument(Quoted(text) + " is not a time; write seconds, or text such as '1h 30m 5s'");
  if (auto seconds = ParseNumber(rest)) {
    if (*seconds <= 0 || *seconds > 1e9)
      return InvalidArgument(Quoted(text) + ": a time limit must be above 0 and below 1e9 s");
    return Duration(static_cast<std::int64_t>(*seconds * 1e9));
  }
  if (rest.empty()) return error;
  double total = 0;
  while (!rest.empty()) {
    std::size_t digits = 0;
    while (digits < rest.size() && (std::isdigit(static_cast<unsigned char>(rest[digits])) != 0 || rest[digits] == '.'))
      ++digits;
    auto number = ParseNumber(rest.substr(0, digits));
    rest = Trim(rest.substr(digits));
    if (!number || rest.empty()) return error;
    switch (std::tolower(static_cast<unsigned char>(rest[0]))) {
      case 's':
        total += *number;
        break;
      case 'm':
        total += *number * 60;
        break;
      case 'h':
        total += *number * 3600;
        break;
      case 'd':
        total += *number * 86400;
        break;
      case 'w':
        total += *number * 604800;
        break;
      default:
        return error;
    }
    while (!rest.empty() && std::isalpha(static_cast<unsigned char>(rest[0])) != 0) rest.remove_prefix(1);
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == ',')) rest.remove_prefix(1);
  }
  if (!(total > 0) || total > 1e9)
    return InvalidArgument(Quoted(text) + ": a time limit must be above 0 and below 1e9 s");
  return Duration(static_cast<std::int64_t>(total * 1e9));
}

Status CheckValohaiValue(const ValohaiParameter& parameter, std::string_view value) {
  std::string owner = "parameter " + Quoted(parameter.name) + ": " + Quoted(value);
  if (parameter.type == ValohaiType::kFlag) {
    std::string text = ToLower(value);
    for (std::string_view word : {"true", "false", "yes", "no", "on", "off", "1", "0"}) {
      if (text == word) return {};
    }
    return InvalidArgument(owner + " is not true or false");
  }
  if (!parameter.choices.empty() &&
      std::find(parameter.choices.begin(), parameter.choices.end(), value) == parameter.choices.end()) {
    return InvalidArgument(owner + " is not one of the choices " + Listed(parameter.choices));
  }
  if (parameter.type == ValohaiType::kString) return {};
  auto number = ParseNumber(value);
  if (parameter.type == ValohaiType::kInteger && !ParseInteger(value))
    return InvalidArgument(owner + " is not a whole number");
  if (!number) return InvalidArgument(owner + " is not a number");
  if (parameter.min && *number < *parameter.min) {
    return InvalidArgument(owner + " is below the min");
  }
  if (parameter.max && *number > *parameter.max) return InvalidArgument(owner + " is above the max");
  return {};
}

Result<const ValohaiStep*> FindValohaiStep(const ValohaiProject& project, std::string_view name) {
  return FindByName(project.steps, name, "step", project.path);
}
Result<const ValohaiTask*> FindValohaiTask(const ValohaiProject& project, std::string_view name) {
  return FindByName(project.tasks, name, "task", project.path);
}

}  // namespace divvy::dialect
