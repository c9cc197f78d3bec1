// The schema of valohai.yaml, key by key. valohai_check.cc has the checks that need no YAML.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/text.h"
#include "dialect/valohai/valohai_fields.h"

namespace divvy::dialect {
namespace {

constexpr std::size_t kMaxText = 1 << 20;
constexpr int kMaxValues = 10'000;
constexpr int kMaxCount = 1'000'000;

template <std::size_t N>
using Words = std::array<std::string_view, N>;

std::string NameOf(const YAML::Node& node, std::string_view kind) {
  if (node.IsMap()) {
    for (const auto& pair : node) {
      if (pair.first.IsScalar() && pair.first.Scalar() == "name" && pair.second.IsScalar()) {
        return std::string(kind) + " " + Quoted(pair.second.Scalar());
      }
    }
  }
  return std::string(kind) + " without a name";
}

std::string FormatNumber(double value, bool is_integer) {
  std::array<char, 64> buffer{};
  if (is_integer) value = std::round(value);
  int length = std::snprintf(buffer.data(), buffer.size(), "%.12g", value);
  return std::string(buffer.data(), static_cast<std::size_t>(length));
}

ValohaiParameter ReadParameter(Problems& problems, const YAML::Node& node, const std::string& owner) {
  static constexpr Words<17> kKeys = {
      "name",    "type",         "default",       "optional", "min",      "max",
      "choices", "description",  "category",      "widget",   "multiple", "multiple-separator",
      "pass-as", "pass-true-as", "pass-false-as", "help",     "units"};
  static constexpr Words<4> kTypes = {"string", "integer", "float", "flag"};
  static constexpr Words<3> kMultiple = {"none", "separate", "repeat"};
  Fields fields(problems, node, owner + ": " + NameOf(node, "parameter"), kKeys);
  ValohaiParameter out;
  out.line = fields.line();
  out.name = fields.Required("name");
  std::string type = fields.Word("type", "string", kTypes);
  out.type = type == "integer" ? ValohaiType::kInteger
             : type == "float" ? ValohaiType::kFloat
             : type == "flag"  ? ValohaiType::kFlag
                               : ValohaiType::kString;
  if (fields.Get("default")) out.defaults = fields.Texts("default");
  out.is_optional = fields.Truth("optional", false) || out.type == ValohaiType::kFlag;
  out.min = fields.Number("min");
  out.max = fields.Number("max");
  out.choices = fields.Texts("choices");
  out.description = fields.Text("description");
  std::string multiple = fields.Word("multiple", "none", kMultiple);
  out.multiple = multiple == "repeat"     ? ValohaiMultiple::kRepeat
                 : multiple == "separate" ? ValohaiMultiple::kSeparate
                                          : ValohaiMultiple::kNone;
  out.separator = fields.Text("multiple-separator", ",");
  out.pass_as = fields.Text("pass-as");
  if (fields.Get("pass-true-as")) out.pass_true_as = fields.Text("pass-true-as");
  if (fields.Get("pass-false-as")) out.pass_false_as = fields.Text("pass-false-as");
  return out;
}

ValohaiInput ReadInput(Problems& problems, const YAML::Node& node, const std::string& owner) {
  static constexpr Words<8> kKeys = {"name",     "default",  "optional", "description", "keep-directories",
                                     "filename", "download", "category"};
  static constexpr Words<5> kKeep = {"none", "full", "suffix", "true", "false"};
  static constexpr Words<2> kDownload = {"always", "on-demand"};
  Fields fields(problems, node, owner + ": " + NameOf(node, "input"), kKeys);
  ValohaiInput out;
  out.line = fields.line();
  out.name = fields.Required("name");
  out.defaults = fields.Texts("default");
  out.is_optional = fields.Truth("optional", false);
  out.description = fields.Text("description");
  out.keep_directories = fields.Word("keep-directories", "none", kKeep);
  if (out.keep_directories == "true") out.keep_directories = "full";
  if (out.keep_directories == "false") out.keep_directories = "none";
  out.filename = fields.Text("filename");
  out.is_on_demand = fields.Word("download", "always", kDownload) == "on-demand";
  return out;
}

ValohaiVariable ReadVariable(Problems& problems, const YAML::Node& node, const std::string& owner) {
  static constexpr Words<4> kKeys = {"name", "default", "optional", "description"};
  Fields fields(problems, node, owner + ": " + NameOf(node, "environment variable"), kKeys);
  ValohaiVariable out;
  out.line = fields.line();
  out.name = fields.Required("name");
  if (fields.Get("default")) out.value = fields.Text("default");
  out.is_optional = fields.Truth("optional", true);
  return out;
}

Duration ReadDuration(Fields& fields, std::string_view key) {
  auto node = fields.Get(key);
  if (!node) return Duration{0};
  auto text = fields.Scalar(*node, key);
  if (!text) return Duration{0};
  auto duration = ParseValohaiDuration(*text);
  if (!duration) fields.Complain(*node, std::string(key) + ": " + duration.error().message);
  return duration.value_or(Duration{0});
}

void ReadResources(Problems& problems, Fields& step, ValohaiStep& out) {
  static constexpr Words<3> kKeys = {"cpu", "memory", "devices"};
  static constexpr Words<2> kRange = {"min", "max"};
  auto node = step.Get("resources");
  if (!node) return;
  Fields fields(problems, *node, step.who() + ": resources", kKeys);
  if (auto cpu = fields.Get("cpu")) {
    Fields range(problems, *cpu, fields.who() + ": cpu", kRange);
    out.cpus_min = range.Number("min");
    out.cpus_max = range.Number("max");
  }
  if (auto memory = fields.Get("memory")) {
    Fields range(problems, *memory, fields.who() + ": memory", kRange);
    out.memory_mb_min = range.Number("min");
    out.memory_mb_max = range.Number("max");
  }
  if (auto devices = fields.Get("devices")) {
    Fields list(problems, *devices, fields.who() + ": devices", {});
    for (const auto& [name, count] : list.values()) out.devices[name] = list.Whole(name, 1, 1, 1024);
  }
}

void ReadOutputsAndMounts(Problems& problems, Fields& fields, ValohaiStep& out) {
  static constexpr Words<3> kOutput = {"name", "description", "category"};
  static constexpr Words<5> kMount = {"source", "destination", "readonly", "type", "options"};
  for (const YAML::Node& item : fields.Items("outputs", "- name: model")) {
    Fields output(problems, item, fields.who() + ": " + NameOf(item, "output"), kOutput);
    out.outputs.push_back(output.Required("name"));
  }
  for (const YAML::Node& item : fields.Items("mounts", "- /host/path:/path/inside")) {
    if (item.IsScalar()) {
      if (item.Scalar().find(':') == std::string::npos) {
        fields.Complain(item, "mount " + Quoted(item.Scalar()) + " lacks ':'; write 'SOURCE:DESTINATION'");
      }
      out.mounts.push_back(item.Scalar());
      continue;
    }
    Fields mount(problems, item, fields.who() + ": mount", kMount);
    std::string source = mount.Required("source");
    out.mounts.push_back(source + ":" + mount.Required("destination"));
  }
}

ValohaiStep ReadStep(Problems& problems, const YAML::Node& node) {
  static constexpr Words<21> kKeys = {"name",
                                      "image",
                                      "command",
                                      "description",
                                      "category",
                                      "icon",
                                      "environment",
                                      "environment-variables",
                                      "environment-variable-groups",
                                      "parameters",
                                      "inputs",
                                      "outputs",
                                      "mounts",
                                      "cache-volumes",
                                      "time-limit",
                                      "no-output-timeout",
                                      "resources",
                                      "runtime-config-preset",
                                      "source-path",
                                      "upload-store",
                                      "stop-condition"};
  Fields fields(problems, node, NameOf(node, "step"), kKeys);
  ValohaiStep out;
  out.line = fields.line();
  out.name = fields.Required("name");
  out.image = fields.Required("image");
  if (!fields.Get("command")) fields.Required("command");
  out.commands = fields.Texts("command");
  out.description = fields.Text("description");
  out.environment = fields.Text("environment");
  out.variable_groups = fields.Texts("environment-variable-groups");
  out.cache_volumes = fields.Texts("cache-volumes");
  out.preset = fields.Text("runtime-config-preset");
  out.source_path = fields.Text("source-path");
  out.upload_store = fields.Text("upload-store");
  out.stop_condition = fields.Text("stop-condition");
  out.time_limit = ReadDuration(fields, "time-limit");
  out.no_output_timeout = ReadDuration(fields, "no-output-timeout");
  for (const YAML::Node& item : fields.Items("environment-variables", "- name: VH_GPUS")) {
    out.variables.push_back(ReadVariable(problems, item, fields.who()));
  }
  for (const YAML::Node& item : fields.Items("parameters", "- name: epochs")) {
    out.parameters.push_back(ReadParameter(problems, item, fields.who()));
  }
  for (const YAML::Node& item : fields.Items("inputs", "- name: dataset")) {
    out.inputs.push_back(ReadInput(problems, item, fields.who()));
  }
  ReadOutputsAndMounts(problems, fields, out);
  ReadResources(problems, fields, out);
  return out;
}

/// The values for one style of a task's parameter, in the style's order.
void ReadRules(Fields& rules, std::string_view style, ValohaiTaskParameter& out) {
  out.is_integer = rules.Truth("integerify", false);
  auto first_of = [&](std::string_view a, std::string_view b) {
    auto value = rules.Number(a);
    return value ? value : rules.Number(b);
  };
  auto start = first_of("start", "min"), end = first_of("end", "max");
  if (style == "single") {
    out.values = {rules.Required("value")};
    return;
  }
  if (style == "multiple") {
    out.values = rules.Texts("items");
    return;
  }
  if (!start || !end) {
    return rules.Complain(std::string(style) + " needs 'start' and 'end' (or 'min' and 'max')");
  }
  if (style == "linear") {
    double step = rules.Number("step").value_or(1);
    if (step == 0 || (*end - *start) / step < 0 || (*end - *start) / step >= kMaxValues) {
      return rules.Complain("a step of " + FormatNumber(step, false) + " does not lead from " +
                            FormatNumber(*start, false) + " to " + FormatNumber(*end, false) +
                            " in at most 10000 values");
    }
    // Add half a thousandth of a step, so that ten steps of 0.1 still reach 1.
    int count = static_cast<int>(std::floor((*end - *start) / step + 5e-4)) + 1;
    for (int i = 0; i < count; ++i) out.values.push_back(FormatNumber(*start + i * step, out.is_integer));
    return;
  }
  out.count = rules.Whole("count", 1, 1, kMaxValues);
  if (style == "logspace") {
    double base = rules.Number("base").value_or(10);
    for (int i = 0; i < out.count; ++i) {
      double exponent = out.count == 1 ? *start : *start + (*end - *start) * i / (out.count - 1);
      out.values.push_back(FormatNumber(std::pow(base, exponent), out.is_integer));
    }
    return;
  }
  static constexpr Words<3> kDistributions = {"uniform", "integer", "log-uniform"};
  out.is_random = true;
  out.min = *start;
  out.max = *end;
  out.distribution = rules.Word("distribution", "uniform", kDistributions);
  if (out.max < out.min) rules.Complain("max is below min");
  if (out.distribution == "log-uniform" && out.min <= 0) rules.Complain("log-uniform needs a min above 0");
  if (rules.Get("seed")) out.seed = rules.Whole("seed", 0, 0, kMaxCount * 1000);
}

ValohaiTaskParameter ReadTaskParameter(Problems& problems, const YAML::Node& node, const std::string& owner) {
  static constexpr Words<3> kKeys = {"name", "style", "rules"};
  static constexpr Words<5> kStyles = {"single", "multiple", "linear", "logspace", "random"};
  static constexpr Words<14> kRules = {"value",      "items", "start", "end",          "step", "count",     "base",
                                       "integerify", "min",   "max",   "distribution", "seed", "numberify", "integer"};
  Fields fields(problems, node, owner + ": " + NameOf(node, "parameter"), kKeys);
  ValohaiTaskParameter out;
  out.line = fields.line();
  out.name = fields.Required("name");
  std::string style = fields.Word("style", "multiple", kStyles);
  auto rules = fields.Get("rules");
  if (!rules) {
    fields.Required("rules");
    return out;
  }
  Fields reader(problems, *rules, fields.who() + ": rules", kRules);
  if (rules->IsMap()) ReadRules(reader, style, out);
  if (!out.is_random && out.values.empty()) fields.Complain(node, "has no value to try");
  return out;
}

ValohaiTask ReadTask(Problems& problems, const YAML::Node& node) {
  static constexpr Words<15> kKeys = {"name",
                                      "step",
                                      "type",
                                      "parameters",
                                      "parameter-sets",
                                      "execution-count",
                                      "execution-batch-size",
                                      "maximum-queued-executions",
                                      "optimization-target-metric",
                                      "optimization-target-value",
                                      "engine",
                                      "reuse-children",
                                      "on-child-error",
                                      "stop-condition",
                                      "description"};
  static constexpr Words<5> kTypes = {"grid_search", "random_search", "manual_search", "bayesian_tpe", "distributed"};
  static constexpr Words<3> kOnError = {"continue-and-complete", "continue-and-error", "stop-all-and-error"};
  Fields fields(problems, node, NameOf(node, "task"), kKeys);
  ValohaiTask out;
  out.line = fields.line();
  out.name = fields.Required("name");
  out.step = fields.Required("step");
  std::string type = ToLower(fields.Text("type", "grid_search"));
  // Ignore case and dashes: "Grid-Search".
  std::replace(type.begin(), type.end(), '-', '_');
  std::replace(type.begin(), type.end(), ' ', '_');
  if (type == "bayesian") type = "bayesian_tpe";
  if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
    fields.Complain(*fields.Get("type"), "type is " + Quoted(type) + Fields::NearestOf(type, kTypes));
  } else {
    out.type = type;
  }
  for (const YAML::Node& item : fields.Items("parameters", "- name: lr")) {
    out.parameters.push_back(ReadTaskParameter(problems, item, fields.who()));
  }
  for (const YAML::Node& item : fields.Items("parameter-sets", "- lr: 0.1")) {
    Fields set(problems, item, fields.who() + ": parameter set", {});
    std::map<std::string, std::string> values;
    for (const auto& [name, value] : set.values()) values[name] = set.Text(name);
    out.parameter_sets.push_back(std::move(values));
  }
  if (!fields.Get("parameters") && !fields.Get("parameter-sets")) {
    fields.Complain(node, "needs 'parameters' or 'parameter-sets'");
  }
  out.execution_count = fields.Whole("execution-count", 0, 1, kMaxCount);
  out.batch_size = fields.Whole("execution-batch-size", 0, 1, kMaxCount);
  out.queued_at_most = fields.Whole("maximum-queued-executions", 0, 1, kMaxCount);
  out.on_child_error = fields.Word("on-child-error", "", kOnError);
  out.stop_condition = fields.Text("stop-condition");
  out.target_metric = fields.Text("optimization-target-metric");
  return out;
}

ValohaiEdge ReadEdge(Problems& problems, const YAML::Node& item, const std::string& owner) {
  static constexpr Words<3> kKeys = {"source", "target", "configuration"};
  ValohaiEdge edge;
  edge.line = LineOf(item);
  if (item.IsSequence()) {
    if (item.size() == 2 && item[0].IsScalar() && item[1].IsScalar()) {
      edge.source = item[0].Scalar();
      edge.target = item[1].Scalar();
    } else {
      problems.push_back(
          {edge.line, false, owner + ": an edge is a list of two texts: [node.output.name, node.input.name]"});
    }
    return edge;
  }
  Fields fields(problems, item, owner + ": edge", kKeys);
  edge.source = fields.Required("source");
  edge.target = fields.Required("target");
  return edge;
}

ValohaiPipeline ReadPipeline(Problems& problems, const YAML::Node& node) {
  static constexpr Words<6> kKeys = {"name", "nodes", "edges", "parameters", "reuse-executions", "description"};
  static constexpr Words<13> kNode = {
      "name",   "type",       "step",    "task",      "on-error",   "actions", "override", "edge-merge-mode",
      "commit", "deployment", "aliases", "endpoints", "description"};
  static constexpr Words<3> kTypes = {"execution", "task", "deployment"};
  static constexpr Words<4> kOnError = {"stop-all", "stop-next", "continue", "retry"};
  static constexpr Words<2> kMerge = {"replace", "append"};
  static constexpr Words<5> kParameter = {"name", "targets", "default", "description", "category"};
  Fields fields(problems, node, NameOf(node, "pipeline"), kKeys);
  ValohaiPipeline out;
  out.line = fields.line();
  out.name = fields.Required("name");
  if (!fields.Get("nodes")) fields.Required("nodes");
  for (const YAML::Node& item : fields.Items("nodes", "- name: train")) {
    Fields reader(problems, item, fields.who() + ": " + NameOf(item, "node"), kNode);
    ValohaiNode inner;
    inner.line = reader.line();
    inner.name = reader.Required("name");
    inner.type = reader.Get("type") ? reader.Word("type", "execution", kTypes) : reader.Required("type");
    inner.step = reader.Text("step");
    inner.task = reader.Text("task");
    inner.on_error = reader.Word("on-error", "", kOnError);
    reader.Word("edge-merge-mode", "", kMerge);
    out.nodes.push_back(std::move(inner));
  }
  for (const YAML::Node& item : fields.Items("edges", "- [train.output.model, test.input.model]")) {
    out.edges.push_back(ReadEdge(problems, item, fields.who()));
  }
  for (const YAML::Node& item : fields.Items("parameters", "- name: epochs")) {
    Fields reader(problems, item, fields.who() + ": " + NameOf(item, "parameter"), kParameter);
    reader.Required("name");
    if (!reader.Get("targets")) reader.Required("targets");
  }
  return out;
}

ValohaiEndpoint ReadEndpoint(Problems& problems, const YAML::Node& node) {
  static constexpr Words<10> kKeys = {"name",  "image",     "server-command", "wsgi",        "port",
                                      "files", "resources", "node-selector",  "tolerations", "description"};
  Fields fields(problems, node, NameOf(node, "endpoint"), kKeys);
  ValohaiEndpoint out;
  out.line = fields.line();
  out.name = fields.Required("name");
  out.image = fields.Required("image");
  out.server_command = fields.Text("server-command");
  out.wsgi = fields.Text("wsgi");
  out.port = fields.Whole("port", 8000, 1025, 65535);
  return out;
}

void ReadEntry(const YAML::Node& entry, ValohaiProject& project, Problems& problems) {
  static constexpr Words<4> kKinds = {"step", "task", "pipeline", "endpoint"};
  Fields fields(problems, entry, "entry", kKinds);
  if (!entry.IsMap()) return;
  if (fields.values().size() > 1) {
    return fields.Complain(entry, "has " + std::to_string(fields.values().size()) +
                                      " keys; write one entry for each step, and indent its keys below 'step:'");
  }
  if (auto node = fields.Get("step")) project.steps.push_back(ReadStep(problems, *node));
  else if (auto task = fields.Get("task")) project.tasks.push_back(ReadTask(problems, *task));
  else if (auto pipeline = fields.Get("pipeline")) project.pipelines.push_back(ReadPipeline(problems, *pipeline));
  else if (auto endpoint = fields.Get("endpoint")) project.endpoints.push_back(ReadEndpoint(problems, *endpoint));
  for (const auto& [kind, value] : fields.values()) {
    if (value.IsNull()) fields.Complain(Quoted(kind) + " is empty; indent its keys below it");
  }
}

/// An alias such as *base counts as all values that it stands for, because each step gets a copy of them.
constexpr std::size_t kMostValues = 200'000;
/// How deep values may be nested. A list can contain itself ("&a [*a]"), so there may be no end.
constexpr int kMostLevels = 64;

/// Counts the values below `node` up to one more than `left`. Values on more than `levels` levels count as too many.
std::size_t CountValues(const YAML::Node& node, std::size_t left, int levels) {
  if (levels == 0) return left + 1;
  std::size_t count = 1;
  for (auto at = node.begin(); at != node.end() && count <= left; ++at) {
    const auto& item = *at;
    if (node.IsMap()) count += CountValues(item.first, left - count, levels - 1) + 1;
    if (count <= left) count += CountValues(node.IsMap() ? item.second : item, left - count, levels - 1);
  }
  return count;
}

/// Loads the text. Throws the exception of yaml-cpp if the text stands for too many values or levels.
YAML::Node LoadBounded(std::string_view text) {
  YAML::Node root = YAML::Load(std::string(text));
  if (CountValues(root, kMostValues, kMostLevels) <= kMostValues) return root;
  throw YAML::Exception(root.Mark(), "it has more than " + std::to_string(kMostValues) + " values or " +
                                         std::to_string(kMostLevels) +
                                         " levels, with each alias (*name) as the values that it stands for; use fewer "
                                         "aliases");
}

}  // namespace

ValohaiReading ReadValohaiYaml(std::string_view text, std::string_view path) {
  ValohaiReading reading;
  reading.project.path = std::string(path);
  if (text.size() > kMaxText) {
    reading.problems.push_back({1, false, "the file is larger than 1 MiB"});
    return reading;
  }
  try {
    YAML::Node root = LoadBounded(text);
    if (!root.IsSequence()) {
      reading.problems.push_back(
          {std::max(1, LineOf(root)), false,
           "the file is " + std::string(KindOf(root)) + ", not a list; begin it with '- step:'"});
      return reading;
    }
    for (const YAML::Node& entry : root) ReadEntry(entry, reading.project, reading.problems);
  } catch (const YAML::Exception& error) {
    reading.problems.push_back({error.mark.line + 1, false, "not YAML: " + OneLine(error.msg)});
    return reading;
  }
  CheckValohaiProject(reading.project, reading.problems);
  std::stable_sort(reading.problems.begin(), reading.problems.end(),
                   [](const ValohaiProblem& a, const ValohaiProblem& b) { return a.line < b.line; });
  return reading;
}

Result<ValohaiProject> ParseValohaiYaml(std::string_view text, std::string_view path) {
  ValohaiReading reading = ReadValohaiYaml(text, path);
  for (const ValohaiProblem& problem : reading.problems) {
    if (!problem.is_warning) return InvalidArgument(FormatProblem(path, problem));
  }
  return std::move(reading.project);
}

Result<std::map<std::string, std::vector<std::string>>> ParseValohaiValues(std::string_view text,
                                                                           std::string_view path) {
  std::map<std::string, std::vector<std::string>> out;
  std::vector<ValohaiProblem> problems;
  if (text.size() > kMaxText) return InvalidArgument(std::string(path) + ": the file is larger than 1 MiB");
  try {
    YAML::Node root = LoadBounded(text);
    Fields fields(problems, root, "parameters", {});
    for (const auto& [name, value] : fields.values()) out[name] = fields.Texts(name);
  } catch (const YAML::Exception& error) {
    problems.push_back({error.mark.line + 1, false, "not YAML or JSON: " + OneLine(error.msg)});
  }
  if (!problems.empty()) return InvalidArgument(FormatProblem(path, problems.front()));
  return out;
}

std::string FormatProblem(std::string_view path, const ValohaiProblem& problem) {
  std::string out(path);
  if (problem.line > 0) out += ":" + std::to_string(problem.line);
  return out + ": " + problem.text;
}

}  // namespace divvy::dialect
