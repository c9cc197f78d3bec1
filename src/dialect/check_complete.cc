// Checks rules over all options of a job.
#include <algorithm>

#include "base/text.h"
#include "dialect/options/components.h"
#include "dialect/options/container_options.h"
#include "dialect/options/job_options.h"
#include "dialect/options/node_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"
#include "dialect/options/task_options.h"
#include "dialect/slurm/slurm.h"
#include "model/job_record.h"

namespace divvy::dialect {
namespace {

/// Slurm's max_script_size is also 4 MiB. The job's row is read again at every start of the daemon.
constexpr std::size_t kMostScriptBytes = 4 << 20;
/// The limit of execve (ARG_MAX is 2 MiB with the usual stack limit).
constexpr std::size_t kMostArgumentBytes = 2 << 20;
/// For an elastic job: the capacity of one server.
constexpr int kMostGpus = GpuSet::kCapacity;

Status CheckWhatRuns(const JobSpec& spec) {
  if (spec.command.empty() && spec.script.empty()) return InvalidArgument("nothing to run: give a command or a script");
  if (!spec.command.empty() && !spec.script.empty())
    return InvalidArgument("both a command and a script are given; give only one of them");
  if (!spec.command.empty() && spec.command.front().empty())
    return InvalidArgument("the command is empty; name a program");
  if (spec.script.size() > kMostScriptBytes)
    return InvalidArgument("the script is larger than " + FormatSize(Bytes(kMostScriptBytes)) +
                           "; keep its data in a file");
  if (spec.script.find('\0') != std::string::npos)
    return InvalidArgument("the script contains a NUL character, so it is not a text file");
  std::size_t bytes = 0;
  for (const auto* words : {&spec.command, &spec.arguments}) {
    for (const std::string& word : *words) {
      if (word.find('\0') != std::string::npos)
        return InvalidArgument("an argument contains a NUL character; remove it");
      bytes += word.size() + 1;
    }
  }
  if (bytes > kMostArgumentBytes)
    return InvalidArgument("the arguments are larger than " + FormatSize(Bytes(kMostArgumentBytes)) +
                           "; pass a file instead");
  return {};
}

/// Other tools and their scripts accept a GPU condition in a job without GPUs.
Status CheckRequest(const Request& request, bool is_native) {
  if (request.gpus < 0 || request.cpus < 0 || request.tasks < 1)
    return InvalidArgument("--gpus and --cpus must be 0 or more, --tasks must be 1 or more");
  if (request.gpu_memory == kNoGpuMemory) {
    return InvalidArgument(
        "--gpu-memory 0 is not a GPU fraction; request 512M or more, or omit it to run without a GPU");
  }
  if (request.gpu_memory < Bytes(0) || request.memory < Bytes(0))
    return InvalidArgument("--gpu-memory and --memory must be 0 or more");
  if (request.max_gpus != 0 && (request.gpus < 1 || request.max_gpus < request.gpus || request.max_gpus > kMostGpus))
    return InvalidArgument("--gpus " + std::to_string(request.gpus) + ".." + std::to_string(request.max_gpus) +
                           " is not a valid range; write it like 2..8, with numbers from 1 to " +
                           std::to_string(kMostGpus));
  if (request.gpu_type.find('*') != std::string::npos) {
    if (const auto type = ReadGpuType(request.gpu_type); !type)
      return InvalidArgument("--gpu-type " + type.error().message);
  }
  if (request.requires_topology && request.topology == TopologyNeed::kAny)
    return InvalidArgument("--topology any:required: 'any' cannot be required; write any");
  if (is_native && request.gpus == 0 && OfGpus(request.topology) != TopologyNeed::kAny)
    return InvalidArgument("--topology needs GPUs; add --gpus 2");
  if (is_native && IsOfMachines(request.topology) && !request.is_gang()) {
    return InvalidArgument(
        "--topology " + TopologyText(request) +
        " applies to jobs on several nodes, but this job has one; add --nodes 2, or omit --topology");
  }
  if (is_native && request.gpus == 0 && !request.gpu_type.empty()) {
    return InvalidArgument("--gpu-type " + request.gpu_type + " needs a GPU; add --gpus 1");
  }
  if (is_native && request.gpus == 0 && request.gpu_memory > Bytes(0))
    return InvalidArgument("--gpu-memory needs a GPU; add --gpus 1");
  return {};
}

Status CheckTimes(const JobSpec& spec) {
  if (spec.time_limit < Duration(0) || spec.grace < JobSpec().grace || spec.retry_delay < Duration(0)) {
    return InvalidArgument("--time, --grace and --retry-delay must be 0 or more");
  }
  if (spec.warn.signal == 0) return {};
  const std::string signal = "--signal " + SignalName(spec.warn.signal) + "@" + std::to_string(spec.warn.before / 1s);
  // Slurm ignores the signal of a job without a limit; scripts rely on that.
  if (spec.time_limit == Duration(0)) {
    if (spec.dialect == Dialect::kNative)
      return InvalidArgument(signal + " is sent before the time limit, but the job has none; add --time");
    return {};
  }
  if (spec.warn.before >= spec.time_limit && spec.dialect == Dialect::kNative) {
    return InvalidArgument(signal + " would be sent before the job starts; the time limit (--time) is " +
                           FormatDuration(spec.time_limit));
  }
  return {};
}

Status CheckMany(const JobSpec& spec) {
  DIVVY_TRY(const std::uint64_t count, ElementCount(spec));
  if (count > 0 && spec.is_foreground) {
    return InvalidArgument("an array or sweep cannot run in the foreground; use 'divvy submit', then 'divvy wait'");
  }
  if (count > 0 && spec.wants_pty) return InvalidArgument("--pty does not work with an array or sweep; omit it");
  if (spec.array && spec.array->at_once < 0) return InvalidArgument("--array: the limit after '%' must be 1 or more");
  if (!spec.name_template.empty()) {
    if (spec.parameters.empty())
      return InvalidArgument("--name-template names the jobs of a sweep; add --param, or use --name");
    // Each {word} must be a parameter; otherwise every job would have the braces in its name.
    std::string_view rest = spec.name_template;
    for (auto open = rest.find('{'); open != std::string_view::npos; open = rest.find('{')) {
      rest.remove_prefix(open + 1);
      const std::string_view name = rest.substr(0, rest.find('}'));
      if (std::ranges::none_of(spec.parameters, [&](const Parameter& known) { return known.name == name; })) {
        std::string names;
        for (const Parameter& known : spec.parameters) names += (names.empty() ? "" : ", ") + known.name;
        return InvalidArgument("--name-template: {" + std::string(name) +
                               "} is not a parameter of the sweep; its parameters: " + names);
      }
    }
  }
  return {};
}

}  // namespace

Status CheckComplete(const JobSpec& spec) {
  DIVVY_CHECK(CheckWhatRuns(spec));
  DIVVY_CHECK(CheckSlurmPlace(spec));
  DIVVY_CHECK(CheckPortion(spec));
  DIVVY_CHECK(CheckComponents(spec));
  for (std::size_t i = 0; i < spec.request.components(); ++i) {
    Request request = ComponentOf(spec.request, i);
    // The topology is given with the first component, and also applies to the other components' GPUs.
    if (request.gpus == 0 && spec.request.gpus_in_all() > 0 && !IsOfMachines(request.topology)) {
      request.topology = TopologyNeed::kAny;
      request.requires_topology = false;
    }
    Status good = CheckRequest(request, spec.dialect == Dialect::kNative);
    if (good) good = CheckNodes(request);
    if (!good)
      return i == 0 ? good.error() : InvalidArgument("component " + std::to_string(i) + ": " + good.error().message);
  }
  DIVVY_CHECK(CheckTimes(spec));
  DIVVY_CHECK(CheckMany(spec));
  DIVVY_CHECK(CheckTasks(spec));
  DIVVY_CHECK(CheckContainer(spec));
  if (spec.group_limit != 0 && spec.group.empty())
    return InvalidArgument("--group-limit needs a group; add --group NAME");
  if (spec.group_limit < 0) return InvalidArgument("--group-limit must be 1 or more");
  if (spec.retries < 0) return InvalidArgument("--retries must be 0 or more");
  if (spec.is_foreground && spec.retries > 0)
    return InvalidArgument("--retries does not work with a foreground job; use 'divvy submit'");
  if (spec.stop_signal < 1 || spec.stop_signal > 64)
    return InvalidArgument("--stop-signal must be a signal from 1 to 64");
  if (spec.resize_signal < 0 || spec.resize_signal > 64)
    return InvalidArgument("--resize-signal must be a signal from 1 to 64, or none");
  for (const std::string& pair : spec.extra_environment) {
    if (pair.find('=') == 0 || pair.find('=') == std::string::npos)
      return InvalidArgument("--env " + Quoted(pair) + " must have the form NAME=VALUE");
  }
  return {};
}

}  // namespace divvy::dialect
