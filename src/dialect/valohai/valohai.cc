#include "dialect/valohai/valohai.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "dialect/options/container_options.h"
#include "dialect/options/quoted.h"
#include "dialect/valohai/valohai_script.h"

namespace divvy::dialect {
namespace {

using Values = std::map<std::string, std::vector<std::string>>;

// FNV-1a: the ids must be unique, not secret.
std::uint64_t Hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 1469598103934665603ULL ^ seed;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

/// Returns the same UUID for the same text (version 8: custom, RFC 9562).
std::string UuidOf(std::string_view text) {
  std::uint64_t a = Hash(text, 0), b = Hash(text, 0x9e3779b97f4a7c15ULL);
  std::array<char, 40> out{};
  std::snprintf(out.data(), out.size(), "%08x-%04x-8%03x-%04x-%012llx", static_cast<unsigned>(a >> 32),
                static_cast<unsigned>(a >> 16 & 0xffff), static_cast<unsigned>(a & 0xfff),
                static_cast<unsigned>((b >> 48 & 0x3fff) | 0x8000),
                static_cast<unsigned long long>(b & 0xffffffffffffULL));
  return out.data();
}

/// Variables of the request are set even if the step defines none.
Result<std::vector<std::pair<std::string, std::string>>> ResolveVariables(const ValohaiStep& step,
                                                                          const ExecutionRequest& request,
                                                                          const std::string& who) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const ValohaiVariable& variable : step.variables) {
    bool is_given = std::any_of(request.variables.begin(), request.variables.end(),
                                [&](const auto& given) { return given.first == variable.name; });
    if (is_given) continue;
    if (variable.value) {
      out.emplace_back(variable.name, *variable.value);
    } else if (!variable.is_optional) {
      return InvalidArgument(who + ": the environment variable " + Quoted(variable.name) +
                             " needs a value; add --var " + variable.name + "=VALUE");
    }
  }
  for (const auto& [name, value] : request.variables) {
    if (name.empty() || name.find_first_of("= \t\n") != std::string::npos || value.find('\0') != std::string::npos) {
      return InvalidArgument("--var " + Quoted(name + "=" + value) +
                             ": a variable name may contain only letters, digits and '_'");
    }
    auto same = std::find_if(out.begin(), out.end(), [&name = name](const auto& one) { return one.first == name; });
    if (same == out.end()) out.emplace_back(name, value);
    else same->second = value;
  }
  return out;
}

Result<Values> ResolveParameters(const ValohaiStep& step, const ExecutionRequest& request, const std::string& who) {
  Values out;
  for (const auto& [name, values] : request.parameters) {
    bool is_known = std::any_of(step.parameters.begin(), step.parameters.end(),
                                [&name = name](const ValohaiParameter& parameter) { return parameter.name == name; });
    if (!is_known) return InvalidArgument(who + ": there is no parameter " + Quoted(name));
  }
  for (const ValohaiParameter& parameter : step.parameters) {
    if (request.varied.contains(parameter.name)) {
      out[parameter.name] = {VariedMark(parameter.name)};
      continue;
    }
    auto given = request.parameters.find(parameter.name);
    std::vector<std::string> values;
    if (given != request.parameters.end()) values = given->second;
    else if (parameter.defaults) values = *parameter.defaults;
    else if (!parameter.is_optional) {
      return InvalidArgument(who + ": parameter " + Quoted(parameter.name) + " needs a value; add --" + parameter.name +
                             "=VALUE");
    }
    if (values.size() > 1 && parameter.multiple == ValohaiMultiple::kNone) {
      return InvalidArgument(who + ": parameter " + Quoted(parameter.name) + " takes one value, not " +
                             std::to_string(values.size()));
    }
    for (const std::string& value : values) {
      if (auto status = CheckValohaiValue(parameter, value); !status)
        return InvalidArgument(who + ": " + status.error().message);
    }
    if (!values.empty()) out[parameter.name] = std::move(values);
  }
  return out;
}

struct InputPlan {
  std::vector<StagedInput> staged;
  std::string json = "{";
};

/// The source and destination of an input. Refuses inputs that cannot be fetched from here.
Result<StagedInput> StageInput(const ValohaiInput& input, const std::string& url, const std::string& directory,
                               const std::string& who) {
  StagedInput out;
  std::string path = url;
  auto scheme = url.find("://");
  if (scheme != std::string::npos || url.starts_with("file:")) {
    std::string name = ToLower(url.substr(0, url.find(':')));
    if (name == "file") {
      path = url.substr(5);
      if (path.starts_with("//")) path = path.substr(path.starts_with("///") ? 2 : 1);
    } else if (name == "http" || name == "https" || name == "ftp") {
      out.is_url = true;
      path = url.substr(scheme + 3, url.find_first_of("?#") - scheme - 3);
      auto slash = path.find('/');
      path = slash == std::string::npos ? "" : path.substr(slash);
    } else {
      return InvalidArgument(who + ": input " + Quoted(input.name) + ": " + Quoted(url) +
                             " cannot be fetched by divvy; give a file or an http URL with --" + input.name + "=PATH");
    }
  }
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::string base = path.substr(path.rfind('/') + 1);
  if (base.empty() || base == "." || base == "..") {
    return InvalidArgument(who + ": input " + Quoted(input.name) + ": " + Quoted(url) + " does not end in a file name");
  }
  if (path.find('\n') != std::string::npos || path.find("/../") != std::string::npos || path.starts_with("../")) {
    if (out.is_url || input.keep_directories == "full" || path.find('\n') != std::string::npos) {
      return InvalidArgument(who + ": input " + Quoted(input.name) + ": " + Quoted(url) + " leaves its directory");
    }
  }
  if (!input.filename.empty()) base = input.filename;
  else if (input.keep_directories == "full") base = path.substr(path.find_first_not_of('/'));
  out.destination = input.name + "/" + base;
  out.source = out.is_url ? url : path.starts_with('/') ? path : directory + "/" + path;
  return out;
}

Result<InputPlan> PlanInputs(const ValohaiStep& step, const ExecutionRequest& request, const std::string& directory,
                             const std::string& inputs_directory, const std::string& who) {
  InputPlan plan;
  for (const auto& [name, urls] : request.inputs) {
    bool is_known = std::any_of(step.inputs.begin(), step.inputs.end(),
                                [&name = name](const ValohaiInput& input) { return input.name == name; });
    if (!is_known) return InvalidArgument(who + ": there is no input " + Quoted(name));
  }
  for (const ValohaiInput& input : step.inputs) {
    auto given = request.inputs.find(input.name);
    const std::vector<std::string>& urls = given == request.inputs.end() ? input.defaults : given->second;
    if (urls.empty() && given == request.inputs.end() && !input.is_optional) {
      return InvalidArgument(who + ": input " + Quoted(input.name) + " needs a file; add --" + input.name + "=PATH");
    }
    plan.json += (plan.json.size() > 1 ? ", " : "") + JsonText(input.name) + ": {\"files\": [";
    bool is_first = true;
    for (const std::string& url : urls) {
      if (url.empty()) continue;
      DIVVY_TRY(StagedInput staged, StageInput(input, url, directory, who));
      for (const StagedInput& other : plan.staged) {
        if (other.destination != staged.destination) continue;
        return InvalidArgument(who + ": input " + Quoted(input.name) + " has two files named " +
                               Quoted(staged.destination.substr(input.name.size() + 1)) +
                               "; set 'keep-directories: full'");
      }
      plan.json += std::string(is_first ? "" : ", ") +
                   "{\"name\": " + JsonText(staged.destination.substr(input.name.size() + 1)) +
                   ", \"path\": " + JsonText(inputs_directory + "/" + staged.destination) +
                   ", \"uri\": " + JsonText(url) + "}";
      is_first = false;
      if (!input.is_on_demand) plan.staged.push_back(std::move(staged));
    }
    plan.json += "]}";
  }
  plan.json += "}";
  return plan;
}

/// A JSON number if possible, else a string.
std::string JsonValue(const ValohaiParameter& parameter, const std::string& value) {
  if (parameter.type == ValohaiType::kFlag) {
    std::string text = ToLower(value);
    return text == "true" || text == "yes" || text == "on" || text == "1" ? "true" : "false";
  }
  // A number of which only the place is known (ExecutionRequest::varied).
  const bool is_number = parameter.type == ValohaiType::kInteger || parameter.type == ValohaiType::kFloat;
  if (is_number && value == VariedMark(parameter.name)) return value;
  if (parameter.type == ValohaiType::kInteger) {
    if (auto number = ParseInteger(value)) return std::to_string(*number);
  }
  if (parameter.type == ValohaiType::kFloat) {
    if (auto number = ParseNumber(value)) {
      std::array<char, 40> out{};
      std::snprintf(out.data(), out.size(), "%.17g", *number);
      std::array<char, 40> brief{};
      std::snprintf(brief.data(), brief.size(), "%.12g", *number);
      return ParseNumber(brief.data()) == number ? brief.data() : out.data();
    }
  }
  return JsonText(value);
}

std::string ParametersJson(const ValohaiStep& step, const Values& values) {
  std::string out = "{";
  for (const ValohaiParameter& parameter : step.parameters) {
    auto found = values.find(parameter.name);
    if (found == values.end() && parameter.type != ValohaiType::kFlag) continue;
    std::string text;
    if (found == values.end()) text = "false";
    else if (parameter.multiple == ValohaiMultiple::kNone) text = JsonValue(parameter, found->second.front());
    else {
      for (const std::string& value : found->second) text += (text.empty() ? "" : ", ") + JsonValue(parameter, value);
      text = "[" + text + "]";
    }
    out += (out.size() > 1 ? ", " : "") + JsonText(parameter.name) + ": " + text;
  }
  return out + "}";
}

std::string Find(const std::vector<std::pair<std::string, std::string>>& variables, std::string_view name) {
  for (const auto& [key, value] : variables) {
    if (key == name) return value;
  }
  return "";
}

/// GPUs: VH_GPUS, else the step's devices, else the default. CPUs: VH_CPU_LIMIT (a number, or a list of cores).
Status FillRequest(const ValohaiStep& step, const std::vector<std::pair<std::string, std::string>>& variables,
                   const ExecutionRequest& request, const std::string& who, Request& out) {
  out.gpus = request.default_gpus;
  for (const auto& [device, count] : step.devices) {
    if (device.find("gpu") != std::string::npos) out.gpus = count;
  }
  if (std::string text(Trim(Find(variables, "VH_GPUS"))); !text.empty()) {
    auto count = ParseInteger(text);
    if (!count || *count < 0 || *count > 1'000'000) {
      return InvalidArgument(who + ": VH_GPUS is " + Quoted(text) +
                             ", which is not a whole number of GPUs; write VH_GPUS=1");
    }
    out.gpus = static_cast<int>(*count);
  }
  if (step.cpus_min) out.cpus = static_cast<int>(std::ceil(std::clamp(*step.cpus_min, 0.0, 1e6)));
  if (std::string text(Trim(Find(variables, "VH_CPU_LIMIT"))); !text.empty()) {
    auto number = ParseNumber(text);
    if (text.find_first_not_of("0123456789,") == std::string::npos && text.find(',') != std::string::npos) {
      out.cpus = static_cast<int>(std::count(text.begin(), text.end(), ',')) + 1;
    } else if (number && *number > 0 && *number < 1e6) {
      out.cpus = static_cast<int>(std::ceil(*number));
    } else {
      return InvalidArgument(who + ": VH_CPU_LIMIT is " + Quoted(text) +
                             ", which is neither a number of CPUs nor a list of cores such as 0,2,4");
    }
  }
  if (auto memory = step.memory_mb_max ? step.memory_mb_max : step.memory_mb_min) {
    out.memory = Bytes(static_cast<std::int64_t>(std::clamp(*memory, 0.0, 1e9)) << 20);
  }
  return {};
}

void AddNotes(const ValohaiStep& step, const ExecutionRequest& request, JobSpec& spec) {
  std::string image = request.image.empty() ? step.image : request.image;
  spec.notes.push_back("image " + Quoted(image) +
                       ": the step runs on the host, without the image, unless valohai_images = true in divvy.toml");
  auto note = [&](bool is_used, std::string text) {
    if (is_used) spec.notes.push_back(std::move(text));
  };
  note(!step.mounts.empty(), "mounts: a step that runs without its image sees the host's own paths");
  note(!step.cache_volumes.empty(), "cache-volumes: nothing is mounted; the step sees the host's own directories");
  note(!step.variable_groups.empty(),
       "environment-variable-groups: groups are stored at Valohai; set the variables with --var");
  note(step.no_output_timeout.count() > 0, "no-output-timeout is not supported");
  note(!step.upload_store.empty(), "upload-store: outputs stay on this node");
  note(!step.stop_condition.empty(), "stop-condition is not supported");
  note(!step.preset.empty(), "runtime-config-preset has no effect in divvy");
}

/// The content of execution.json, with its "valohai." keys. The counter is filled in where the job runs.
std::string ExecutionJson(const ExecutionRequest& request, const JobSpec& spec, const std::string& image,
                          const ParseContext& around) {
  std::array<char, 40> now{};
  std::snprintf(now.data(), now.size(), "%.6f", ToSeconds(around.now));
  std::string tags;
  for (const std::string& tag : request.tags) tags += (tags.empty() ? "" : ", ") + JsonText(tag);
  std::string out = "{";
  auto add = [&](std::string_view key, const std::string& json) {
    out += (out.size() > 1 ? ", \"valohai." : "\"valohai.") + std::string(key) + "\": " + json;
  };
  add("execution-id", JsonText(request.varied.empty() ? spec.labels.at("valohai.execution") : "@EXECUTION@"));
  add("execution-counter", "@COUNTER@");
  add("execution-step", JsonText(spec.name));
  add("execution-image", JsonText(image));
  add("execution-status", JsonText("started"));
  add("execution-tags", "[" + tags + "]");
  add("execution-title", JsonText(spec.labels.at("valohai.title")));
  add("execution-ctime", now.data());
  add("execution-qtime", now.data());
  add("execution-duration", "0");
  add("project-id", JsonText(UuidOf(request.project)));
  add("project-name", JsonText(request.project));
  add("environment-name", JsonText(spec.pool));
  add("creator-name", JsonText(around.user));
  return out + "}";
}

void SetEnvironment(const std::vector<std::pair<std::string, std::string>>& variables, const ExecutionRequest& request,
                    const std::string& root, JobSpec& spec) {
  auto set = [&](std::string_view name, const std::string& value) {
    spec.extra_environment.push_back(std::string(name) + "=" + value);
  };
  const std::string& id = spec.labels.at("valohai.execution");
  for (const auto& [name, value] : variables) set(name, value);
  set("VH_CONFIG_DIR", root + "/config");
  set("VH_INPUTS_DIR", root + "/inputs");
  set("VH_OUTPUTS_DIR", root + "/outputs");
  set("VH_REPOSITORY_DIR", spec.directory);
  set("VH_JOB_ID", "exec-" + id);
  set("VH_EXECUTION_ID", id);
  set("VH_PROJECT_ID", UuidOf(request.project));
  if (!request.task_id.empty()) set("VH_TASK_ID", request.task_id);
  if (Find(variables, "VH_GPUS").empty()) set("VH_GPUS", std::to_string(spec.request.gpus));
}

}  // namespace

Result<JobSpec> MakeExecution(const ValohaiProject& project, std::string_view step_name,
                              const ExecutionRequest& request, const ParseContext& around) {
  DIVVY_TRY(const ValohaiStep* step, FindValohaiStep(project, step_name));
  std::string who = project.path + ": step " + Quoted(step->name);
  DIVVY_TRY(auto variables, ResolveVariables(*step, request, who));
  DIVVY_TRY(Values values, ResolveParameters(*step, request, who));

  std::string id = request.execution_id;
  if (id.empty()) id = UuidOf(step->name + std::to_string(around.now.time_since_epoch().count()) + around.directory);
  std::string root = request.root.empty() ? around.home + "/.local/share/divvy/executions/" + id : request.root;
  std::string title = request.title.empty() ? step->name : request.title;
  std::string image = request.image.empty() ? step->image : request.image;
  std::string environment = request.environment.empty() ? step->environment : request.environment;
  DIVVY_TRY(InputPlan inputs, PlanInputs(*step, request, around.directory, root + "/inputs", who));

  JobSpec spec;
  spec.dialect = Dialect::kValohai;
  spec.name = step->name;
  spec.project = request.project;
  spec.pool = environment;
  spec.comment = request.title;
  spec.priority = request.priority;
  spec.time_limit = step->time_limit;
  spec.requeues_after_reboot = request.restarts;
  spec.directory = request.repository.empty() ? around.directory : request.repository;
  DIVVY_CHECK(FillRequest(*step, variables, request, who, spec.request));
  AddNotes(*step, request, spec);

  spec.labels = {
      {"valohai.step", step->name}, {"valohai.execution", id}, {"valohai.root", root}, {"valohai.title", title}};
  if (!request.task_id.empty()) spec.labels["valohai.task"] = request.task_id;
  if (ReadImage(image)) spec.labels["valohai.image"] = image;
  if (!step->mounts.empty()) spec.labels["valohai.mounts"] = Join(step->mounts, ",");
  if (!request.tags.empty()) spec.labels["valohai.tags"] = Join(request.tags, ",");

  ExecutionScript script;
  script.is_of_array = !request.varied.empty();
  for (const std::string& command : step->commands) {
    script.commands.push_back(FillValohaiCommand(command, *step, values));
    if (script.commands.back().find('\0') != std::string::npos)
      return InvalidArgument(who + ": a command contains a NUL character");
  }
  script.inputs = std::move(inputs.staged);
  std::string parameters = ParametersJson(*step, values);
  spec.labels["valohai.parameters"] = parameters;
  script.configuration = {
      {"execution", ExecutionJson(request, spec, image, around)},
      {"parameters", parameters},
      {"inputs", inputs.json},
      // The host on which the execution was submitted, and the number of GPUs that it requests.
      {"runtime",
       "{\"hostname\": " + JsonText(around.hostname) + ", \"gpus\": " + std::to_string(spec.request.gpus) + "}"},
  };
  spec.script = RenderScript(script);

  SetEnvironment(variables, request, root, spec);
  return spec;
}

}  // namespace divvy::dialect
