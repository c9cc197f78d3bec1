// Formats a spec for users.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/text.h"
#include "dialect/options/container_options.h"
#include "dialect/options/job_options.h"
#include "dialect/options/node_options.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/private_folders.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"
#include "dialect/options/task_options.h"
#include "engine/message_text.h"
#include "model/same_element.h"
#include "model/warn_time.h"

namespace divvy::dialect {
namespace {

std::string UtcMoment(Time time) {
  const auto since = std::chrono::floor<std::chrono::seconds>(time.time_since_epoch());
  const auto day = std::chrono::floor<std::chrono::days>(since);
  const std::chrono::year_month_day date{std::chrono::sys_days(day)};
  const auto clock = (since - day).count();
  char text[64];
  std::snprintf(text, sizeof text, "%d-%02u-%02u %02d:%02d:%02d UTC", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), static_cast<int>(clock / 3600),
                static_cast<int>(clock / 60 % 60), static_cast<int>(clock % 60));
  return text;
}

std::string GpuReading(const Request& request) {
  if (request.is_portioned() || !request.slice.empty()) return PortionReading(request);
  if (request.gpus == 0) return "GPUs of " + request.gpu_type;
  std::string out = request.is_elastic() ? std::to_string(request.gpus) + " to " + Plural(request.max_gpus, "GPU")
                                         : Plural(request.gpus, "GPU");
  if (!request.gpu_type.empty()) out += " (" + request.gpu_type + ")";
  return out;
}

/// "2 nodes with 4 GPUs each (h100)", "2 nodes with 3 GPUs in total", "no GPU"; "" if the job requests neither GPUs nor
/// several nodes.
std::string PlaceReading(const Request& request) {
  const bool has_gpus = request.gpus > 0 || !request.gpu_type.empty();
  if (request.nodes <= 1) return has_gpus ? GpuReading(request) : "";
  const std::string nodes = Plural(request.nodes, "node");
  if (request.short_nodes > 0) {
    Request all = request;
    all.gpus = request.gpus * request.nodes - request.short_nodes;
    return nodes + " with " + GpuReading(all) + " in total";
  }
  return has_gpus ? nodes + " with " + GpuReading(request) + " each" : nodes;
}

std::string TopologyReading(const Request& request) {
  return std::string(TopologyPhrase(request.topology)) + (request.requires_topology ? " (required)" : " if possible");
}

std::string PlacementReading(PlacementStrategy placement) {
  switch (placement) {
    case PlacementStrategy::kSequential:
      return "on the lowest free GPUs";
    case PlacementStrategy::kRandom:
      return "on random GPUs";
    case PlacementStrategy::kPack:
      return "packed";
    case PlacementStrategy::kSpread:
      return "spread over NUMA nodes";
    case PlacementStrategy::kBest:
      return "on the best connected GPUs";
  }
  return "";
}

std::string PreemptibleReading(Preemptible preemptible) {
  switch (preemptible) {
    case Preemptible::kNever:
      return "never preempted";
    case Preemptible::kPause:
      return "may be preempted (paused)";
    case Preemptible::kRequeue:
      return "may be preempted (requeued)";
  }
  return "";
}

std::string DependencyReading(const Dependency& dependency) {
  std::string job = "job " + (dependency.job.is_set() ? ToString(dependency.job) : std::string("@"));
  if (dependency.element == kSameElement) return "each element after that of " + job + " succeeds";
  if (dependency.element) job += "_" + std::to_string(*dependency.element);
  switch (dependency.kind) {
    case DependencyKind::kAfter:
      return (dependency.delay > Duration(0) ? FormatDuration(dependency.delay) + " " : std::string()) + "after " +
             job + " starts";
    case DependencyKind::kAfterOk:
      return "after " + job + " succeeds";
    case DependencyKind::kAfterNotOk:
      return "after " + job + " fails";
    case DependencyKind::kAfterAny:
      return "after " + job + " ends";
    case DependencyKind::kSingleton:
      return "after all earlier jobs of this name";
  }
  return "";
}

std::string DependenciesReading(const JobSpec& spec) {
  // Long lists of dependencies are cut.
  constexpr std::size_t kMostShown = 4;
  std::string out;
  for (std::size_t i = 0; i < std::min(spec.dependencies.size(), kMostShown); ++i) {
    if (i > 0) out += spec.needs_any_dependency ? " or " : " and ";
    out += DependencyReading(spec.dependencies[i]);
  }
  if (spec.dependencies.size() > kMostShown)
    out += " and " + std::to_string(spec.dependencies.size() - kMostShown) + " more";
  return out;
}

std::string ManyReading(const JobSpec& spec) {
  const auto count = ElementCount(spec);
  if (!count) return count.error().message;
  if (*count == 0) return "";
  std::string out = Plural(static_cast<std::int64_t>(*count), "element");
  std::string names;
  for (const Parameter& parameter : spec.parameters) names += (names.empty() ? "" : ", ") + parameter.name;
  if (!names.empty()) out += " over " + names;
  if (spec.array && spec.array->at_once > 0) out += ", " + std::to_string(spec.array->at_once) + " at a time";
  return out;
}

void ReadBackOthers(const JobSpec& spec, std::vector<std::string>& out) {
  const auto add = [&](bool is_set, std::string text) {
    if (is_set) out.push_back(std::move(text));
  };
  add(!spec.name.empty(), "named " + spec.name);
  add(!spec.name_template.empty(), "each named " + spec.name_template);
  add(!spec.output.empty(), "output to " + spec.output + (spec.appends_output ? " (appended)" : ""));
  add(spec.output.empty() && spec.appends_output, "output appended");
  add(!spec.error.empty(), "errors to " + spec.error);
  add(!spec.input.empty(), "input from " + spec.input);
  add(!spec.directory.empty(), "runs in " + spec.directory);
  add(spec.wants_pty, "with a terminal");
  add(spec.warn.signal != 0, SignalName(spec.warn.signal) + " " +
                                 FormatDuration(WarnBefore(spec.time_limit, spec.warn.before)) + " before its limit" +
                                 (spec.warn.batch_only ? ", to the batch script only" : ""));
  add(spec.stop_signal != 15, "stopped with " + SignalName(spec.stop_signal));
  add(spec.resize_signal == 0, "no signal when its GPUs change");
  add(spec.resize_signal != 10 && spec.resize_signal != 0,
      "signal when its GPUs change: " + SignalName(spec.resize_signal));
  add(spec.grace >= Duration(0), FormatDuration(spec.grace) + " to end before SIGKILL");
  add(spec.is_placement_set, PlacementReading(spec.placement));
  add(spec.keeps_waiting, "keeps waiting when a dependency fails");
  add(spec.queues_anyway, "waits even if no node can ever run it");
  add(!spec.project.empty(), "project " + spec.project);
  add(!spec.team.empty(), "team " + spec.team);
  add(!spec.account.empty(), "account " + spec.account);
  add(!spec.pool.empty(), "pool " + spec.pool);
  add(!spec.comment.empty(), "comment " + Quoted(spec.comment));
  add(!ContainerReading(spec).empty(), ContainerReading(spec));
  add(!PrivateFoldersReading(spec).empty(), PrivateFoldersReading(spec));
  const TaskOptions tasks = ReadTaskOptions(spec);
  add(tasks.gpus_per_task > 0, Plural(tasks.gpus_per_task, "GPU") + " for each task");
  add(!tasks.gpu_bind.empty(), "GPUs bound as " + tasks.gpu_bind);
  add(!tasks.cpu_bind.empty(), "cores bound as " + tasks.cpu_bind);
  add(tasks.keeps_others, "other tasks continue if one fails");
  add(tasks.labels_output, "output lines labelled with the task number");
  const auto kept = spec.labels.find("divvy.export");
  add(kept != spec.labels.end(), kept == spec.labels.end() ? "" : "exports " + kept->second + " from the environment");
  for (const std::string& pair : spec.extra_environment) out.push_back("sets " + Quoted(pair));
}

}  // namespace

namespace {

/// One component's resource request.
std::vector<std::string> RequestReadings(const Request& request) {
  std::vector<std::string> out;
  const auto add = [&](bool is_set, std::string text) {
    if (is_set) out.push_back(std::move(text));
  };
  const std::string place = PlaceReading(request);
  add(!place.empty(), place);
  add(request.topology != TopologyNeed::kAny, TopologyReading(request));
  add(request.gpu_memory > Bytes(0), "at least " + FormatSize(request.gpu_memory) + " on each GPU");
  const std::string each = request.nodes > 1 ? " each" : "";
  add(request.cpus > 0, Plural(request.cpus, "CPU") + each);
  add(request.memory > Bytes(0), FormatSize(request.memory) + " of memory" + each);
  add(request.tasks > 1, Plural(request.tasks, "task") + (request.spreads_tasks ? " on as few nodes as possible" : ""));
  for (std::string& reading : NodeReadings(request)) out.push_back(std::move(reading));
  return out;
}

/// Like RequestReadings, for a text that shows nothing else of the request.
std::string RequestSummary(const Request& request) {
  std::vector<std::string> parts = RequestReadings(request);
  if (request.gpus == 0 && request.gpu_type.empty())
    parts.insert(parts.begin() + (request.nodes > 1 ? 1 : 0), "no GPU");
  return Join(parts, ", ");
}

}  // namespace

Readings ReadBack(const JobSpec& spec) {
  Readings out;
  const Request& request = spec.request;
  const auto add = [&](bool is_set, std::string text) {
    if (is_set) out.request.push_back(std::move(text));
  };
  if (request.is_heterogeneous()) {
    for (std::size_t i = 0; i < request.components(); ++i) {
      const Request component = ComponentOf(request, i);
      const std::string pool = i > 0 ? request.others[i - 1].pool : "";
      add(true,
          "component " + std::to_string(i) + ": " + RequestSummary(component) + (pool.empty() ? "" : ", pool " + pool));
    }
  } else {
    out.request = RequestReadings(request);
  }
  add(spec.time_limit > Duration(0), "at most " + FormatDuration(spec.time_limit));
  const std::string many = ManyReading(spec);
  add(!many.empty(), many);
  add(!spec.group.empty(),
      "in group " + spec.group + (spec.group_limit > 0 ? ", " + std::to_string(spec.group_limit) + " at a time" : ""));
  add(!spec.dependencies.empty(), DependenciesReading(spec));
  add(spec.begin != kNoTime, "not before " + UtcMoment(spec.begin));
  add(spec.priority != 0, "priority " + std::to_string(spec.priority));
  add(spec.is_held, "held");
  add(spec.retries > 0, spec.retries == 1 ? "1 retry" : std::to_string(spec.retries) + " retries");
  add(spec.requeues_after_reboot, "requeued after a reboot");
  add(spec.stale_grace < Duration(0), "continues without lost nodes");
  add(spec.stale_grace > Duration(0), "continues for " + FormatDuration(spec.stale_grace) + " without lost nodes");
  add(spec.is_preemptible_set, PreemptibleReading(spec.preemptible));
  ReadBackOthers(spec, out.others);
  return out;
}

std::string Summarise(const JobSpec& spec) {
  std::vector<std::string> parts = ReadBack(spec).request;
  if (spec.request.gpus == 0 && spec.request.gpu_type.empty() && !spec.request.is_heterogeneous())
    parts.insert(parts.begin() + (spec.request.nodes > 1 ? 1 : 0), "no GPU");
  return Join(parts, spec.request.is_heterogeneous() ? "; " : ", ");
}

}  // namespace divvy::dialect
