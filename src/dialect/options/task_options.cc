#include "dialect/options/task_options.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "dialect/options/option_values.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kGpusPerTask = "divvy.gpus-per-task";
constexpr std::string_view kGpuBind = "divvy.gpu-bind";
constexpr std::string_view kCpuBind = "divvy.cpu-bind";
constexpr std::string_view kNoKill = "divvy.no-kill";
constexpr std::string_view kLabelOutput = "divvy.label-output";
constexpr std::string_view kTasks = "divvy.tasks";
constexpr std::string_view kComponents = "divvy.components";

std::string Label(const JobSpec& spec, std::string_view name) {
  const auto at = spec.labels.find(std::string(name));
  return at == spec.labels.end() ? "" : at->second;
}

Option Kept(std::string_view name, std::string_view value_name, std::string_view help, std::string_view label,
            JobSpec& spec, std::vector<std::string_view> words) {
  return Option::Value(name, value_name, help, [=, &spec](std::string_view value) -> Status {
    if (std::ranges::none_of(words, [&](std::string_view word) { return value.starts_with(word); }))
      return InvalidArgument("'" + std::string(value) + "' is not valid; expected " + std::string(value_name));
    spec.labels[std::string(label)] = value;
    return {};
  });
}

Option Set(std::string_view name, std::string_view help, std::string_view label, JobSpec& spec) {
  return Option::Flag(name, help, [=, &spec](std::string_view) -> Status {
    spec.labels[std::string(label)] = "1";
    return {};
  });
}

}  // namespace

TaskOptions ReadTaskOptions(const JobSpec& spec) {
  TaskOptions options;
  options.gpus_per_task = static_cast<int>(ParseInteger(Label(spec, kGpusPerTask)).value_or(0));
  options.gpu_bind = Label(spec, kGpuBind);
  options.cpu_bind = Label(spec, kCpuBind);
  options.keeps_others = !Label(spec, kNoKill).empty();
  options.labels_output = !Label(spec, kLabelOutput).empty();
  options.components = Label(spec, kComponents);
  options.says_tasks = !Label(spec, kTasks).empty();
  return options;
}

void AddTaskOptions(std::vector<Option>& table, JobSpec& spec) {
  table.push_back(
      Option::Value("gpus-per-task", "N",
                    "GPUs of each task; they come first in its CUDA_VISIBLE_DEVICES, followed by the job's other GPUs",
                    [&spec](std::string_view value) -> Status {
                      DIVVY_TRY(const int count, ReadCount(value, 1, GpuSet::kCapacity, "GPUs"));
                      spec.labels[std::string(kGpusPerTask)] = std::to_string(count);
                      return {};
                    }));
  table.push_back(Kept("gpu-bind", "single|none|map_gpu:LIST|mask_gpu:LIST",
                       "GPUs that each task sees: only its own (single), all in the same order (none), or as listed",
                       kGpuBind, spec,
                       {"single", "per_task", "none", "map_gpu:", "mask_gpu:", "map:", "mask:", "closest"}));
  table.push_back(Kept("cpu-bind", "none|cores|rank|map_cpu:LIST|mask_cpu:LIST",
                       "cores that each task runs on (default: those near its GPUs)", kCpuBind, spec,
                       {"none", "cores", "rank", "map_cpu:", "mask_cpu:"}));
  table.push_back(Set("no-kill", "let the other tasks continue if one fails", kNoKill, spec));
  table.push_back(Option::Value(
      "components", "LIST|all", "inside a heterogeneous job: components to run the tasks in, such as 0,2",
      [&spec](std::string_view value) -> Status {
        if (value.empty() || (value != "all" && value.find_first_not_of("0123456789,-") != value.npos))
          return InvalidArgument("'" + std::string(value) + "' is not a list of components; write 0,2 or all");
        spec.labels[std::string(kComponents)] = value;
        return {};
      }));
  table.push_back(Set("label-output", "prefix each output line with the number of its task", kLabelOutput, spec));
}

void SetTasks(JobSpec& spec, int tasks) {
  spec.request.tasks = tasks;
  spec.labels[std::string(kTasks)] = std::to_string(tasks);
}

void CompleteTasks(JobSpec& spec) {
  Request& request = spec.request;
  if (request.tasks < request.nodes && Label(spec, kTasks).empty()) request.tasks = request.nodes;
  const int each = ReadTaskOptions(spec).gpus_per_task;
  if (each <= 0 || request.gpus > 0) return;
  request.gpus = each * ((request.tasks + request.nodes - 1) / std::max(request.nodes, 1));
  request.spreads_tasks = request.nodes <= 1 && request.tasks > 1;
}

Status CheckTasks(const JobSpec& spec) {
  const Request& request = spec.request;
  if (!Label(spec, kComponents).empty())
    return InvalidArgument("--components works only with divvy run inside a heterogeneous job; omit it");
  const int each = ReadTaskOptions(spec).gpus_per_task;
  const int nodes = std::max(request.nodes, 1);
  const int tasks = (request.tasks + nodes - 1) / nodes;  // On the node with the most tasks.
  if (each <= 0 || request.gpus / each >= tasks) return {};
  return InvalidArgument("--gpus " + std::to_string(request.gpus) + " is too few for " + Plural(tasks, "task") +
                         (nodes > 1 ? " on one node with " : " with ") + std::to_string(each) +
                         " each; omit --gpus, or write fewer --tasks");
}

bool StartsTasks(const JobSpec& spec) {
  const Request& request = spec.request;
  return spec.dialect == Dialect::kNative && !spec.command.empty() && (request.tasks > 1 || request.is_heterogeneous());
}

bool NamesTask(std::string_view pattern) {
  for (std::size_t at = 0; at + 1 < pattern.size(); ++at) {
    if (pattern[at] != '%') continue;
    ++at;
    while (at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9') ++at;
    if (at < pattern.size() && pattern[at] == 't') return true;
  }
  return false;
}

std::vector<std::string> TaskStarter(const std::string& divvy, const JobSpec& spec,
                                     const std::vector<std::string>& command) {
  const bool is_heterogeneous = spec.request.is_heterogeneous();
  const std::string tasks = "--tasks=" + std::to_string(spec.request.tasks);
  std::vector<std::string> words = {divvy, "run", is_heterogeneous ? "--components=all" : tasks};
  const auto bind = [&words](const TaskOptions& options) {
    if (options.gpus_per_task > 0) words.push_back("--gpus-per-task=" + std::to_string(options.gpus_per_task));
    if (!options.gpu_bind.empty()) words.push_back("--gpu-bind=" + options.gpu_bind);
    if (!options.cpu_bind.empty()) words.push_back("--cpu-bind=" + options.cpu_bind);
  };
  const TaskOptions options = ReadTaskOptions(spec);
  bind(options);
  if (options.keeps_others) words.push_back("--no-kill");
  if (options.labels_output) words.push_back("--label-output");
  if (NamesTask(spec.output)) words.push_back("--output=" + spec.output);
  if (NamesTask(spec.error)) words.push_back("--error=" + spec.error);
  if (spec.appends_output && NamesTask(spec.output)) words.push_back("--open-mode=append");
  for (const Component& one : spec.request.others) {
    JobSpec component;
    component.labels = one.labels;
    words.push_back(":");
    bind(ReadTaskOptions(component));
  }
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace divvy::dialect
