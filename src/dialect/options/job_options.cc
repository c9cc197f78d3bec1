#include "dialect/options/job_options.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/text.h"
#include "dialect/options/container_options.h"
#include "dialect/options/node_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/private_folders.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"
#include "dialect/options/task_options.h"
#include "model/notify.h"
#include "model/waste_rules.h"

namespace divvy::dialect {
namespace {

/// The options that were given so far in one level (a command line, or a script's lines). All closures of one table
/// share it.
struct Level {
  bool has_gpus = false;
  bool has_dependencies = false;
  std::set<std::string, std::less<>> parameters;
};

Status ApplyDependencies(std::string_view text, const ParseContext& around, JobSpec& spec, Level& level) {
  JobSpec read;
  DIVVY_CHECK(ParseDependencies(text, around, read));
  if (!level.has_dependencies) {
    spec.dependencies.clear();
    spec.needs_any_dependency = false;
  }
  level.has_dependencies = true;
  for (const Dependency& dependency : read.dependencies) {
    if (std::ranges::find(spec.dependencies, dependency) == spec.dependencies.end())
      spec.dependencies.push_back(dependency);
  }
  spec.needs_any_dependency = spec.needs_any_dependency || read.needs_any_dependency;
  for (const std::string& note : read.notes) AddNote(spec, note);
  return {};
}

Status ApplyEnvironment(std::string_view text, JobSpec& spec, Level& level) {
  DIVVY_TRY(const std::string pair, ReadEnvironmentPair(text));
  const auto equals = pair.find('=');
  if (std::string_view(pair).substr(0, equals) == "VH_GPUS" && !level.has_gpus) {
    const auto gpus = ReadGpuCount(std::string_view(pair).substr(equals + 1));
    if (!gpus) return InvalidArgument("VH_GPUS: " + gpus.error().message);
    spec.request.gpus = *gpus;
    spec.request.max_gpus = 0;
    spec.request.portion.request = GpuShare();
  }
  SetEnvironment(spec, pair);
  return {};
}

Status ApplyParameter(std::string_view text, JobSpec& spec, Level& level) {
  const std::string name(Trim(text.substr(0, text.find('='))));
  const std::vector<Parameter> before = spec.parameters;
  if (!level.parameters.contains(name)) {
    std::erase_if(spec.parameters, [&](const Parameter& parameter) { return parameter.name == name; });
  }
  Status status = ParseParameter(text, spec);
  if (!status) {
    spec.parameters = before;
    return status;
  }
  level.parameters.insert(name);
  return status;
}

Status ApplyParameterFile(std::string_view path, const ParseContext& around, JobSpec& spec, Level& level) {
  DIVVY_TRY(const std::string csv, ReadNamedFile(path, around));
  const std::size_t before = spec.parameters.size();
  DIVVY_CHECK(ParseParameterFile(csv, path, spec));
  for (std::size_t i = before; i < spec.parameters.size(); ++i) level.parameters.insert(spec.parameters[i].name);
  return {};
}

using Table = std::vector<Option>;

void AddResources(Table& table, JobSpec& spec, const std::shared_ptr<Level>& level) {
  table.push_back(Option::Value("gpus", 'g', "N|N..M|0.25|2x0.5",
                                "GPUs on each node: 2; 2..8 for at least 2 and up to 8 if free at the start; 0.25 for "
                                "a fraction of one GPU; 2x0.5 for half of each of two (default: 0)",
                                [&spec, level](std::string_view value) -> Status {
                                  DIVVY_CHECK(ApplyGpus(value, spec.request));
                                  level->has_gpus = true;
                                  return {};
                                }));
  table.push_back(Option::Value(
      "gpu-type", "SPEC",
      "GPU model, such as h100, \"h100|a100\" or \"h100&80gb\"; \"h100*1.0|a100*0.55\" adds the relative speed on each",
      Reads(spec.request.gpu_type, ReadGpuType)));
  table.push_back(Option::Value(
      "gpu-memory", "SIZE",
      "minimum memory of each GPU, such as 40G; without --gpus, or with --shared: the GPU memory that the job requests",
      [&spec](std::string_view value) -> Status {
        DIVVY_TRY(spec.request.gpu_memory, ParseSize(value, kMebibyte));
        if (spec.request.gpu_memory == Bytes()) spec.request.gpu_memory = kNoGpuMemory;
        return {};
      }));
  table.push_back(Option::Value("cpus", 'c', "N", "CPU cores on each node",
                                Reads(spec.request.cpus, ReadCount, 0, 65'536, "CPUs")));
  table.push_back(Option::Value("memory", "SIZE", "host memory on each node, such as 64G",
                                Reads(spec.request.memory, ParseSize, kMebibyte), {"mem"}));
  table.push_back(Option::Value("tasks", 'n', "N",
                                "tasks on all nodes together; each runs the command with its own rank; a script runs "
                                "once (default: one on each node)",
                                [&spec](std::string_view value) -> Status {
                                  DIVVY_TRY(const int tasks, ReadCount(value, 1, 65'536, "tasks"));
                                  SetTasks(spec, tasks);
                                  return {};
                                },
                                {"ntasks"}));
  AddTaskOptions(table, spec);
  AddNodeOptions(table, spec);
  AddPortionOptions(table, spec);
  table.push_back(
      Option::Value("topology", "LEVEL",
                    "well-connected GPUs: any, numa (one NUMA node) or nvlink (every pair connected); well-connected "
                    "nodes: rack or block; numa:required waits until such GPUs are free (default: any)",
                    [&spec](std::string_view value) { return ParseTopology(value, spec.request); }));
  table.push_back(Option::Value("placement", "HOW",
                                "how to choose among free GPUs: best (best connected), sequential (lowest index "
                                "first), random, pack or spread (default: the server's setting)",
                                [&spec](std::string_view value) -> Status {
                                  DIVVY_TRY(spec.placement, ReadPlacement(value));
                                  spec.is_placement_set = true;
                                  return {};
                                }));
  table.push_back(Option::Flag("queue-anyway", "queue the job even if it requests more than the server has",
                               Sets(spec.queues_anyway)));
}

void AddWhen(Table& table, JobSpec& spec, const ParseContext& around, const std::shared_ptr<Level>& level) {
  table.push_back(Option::Value("time", 't', "TIME",
                                "time limit, such as 90m, 1h30m or 02:00:00; a bare number means minutes",
                                Reads(spec.time_limit, ReadTimeLimit), {"time-limit"}));
  table.push_back(Option::Value("begin", "WHEN", "earliest start time: now+1h, 16:00, tomorrow, 2026-03-01T16:00",
                                [&spec, &around](std::string_view value) -> Status {
                                  DIVVY_TRY(spec.begin, ParseMoment(value, around.now, around.utc_offset));
                                  if (spec.begin < around.now)
                                    AddNote(spec,
                                            "--begin " + std::string(value) + " has passed: starts as soon as it can");
                                  return {};
                                }));
  table.push_back(Option::Value(
      "deadline", "WHEN",
      "latest end time; the job leaves the queue if it cannot start early enough, and is stopped at that time",
      [&spec, &around](std::string_view value) -> Status {
        DIVVY_TRY(spec.end_by, ParseMoment(value, around.now, around.utc_offset));
        if (spec.end_by <= around.now) return InvalidArgument(Quoted(value) + " has passed");
        return {};
      }));
  table.push_back(Option::Value("priority", 'p', "N", "scheduling priority; higher runs first (default: 0)",
                                Reads(spec.priority, ReadCount, -kMostPriority, kMostPriority, "priority")));
  table.push_back(Option::Flag("hold", 'H', "hold the job until 'divvy release'", Sets(spec.is_held)));
  table.push_back(Option::Value(
      "dependency", 'd', "LIST",
      "wait for other jobs: afterok:12:13, afterany:14, after:12+5, singleton, @ (my last job)",
      [&spec, &around, level](std::string_view value) { return ApplyDependencies(value, around, spec, *level); },
      {"depends-on"}));
  table.push_back(
      Option::Value("after", "IDS", "wait until these jobs have ended, successfully or not: 12, 12:13, @ (my last job)",
                    [&spec, &around, level](std::string_view value) -> Status {
                      for (std::string_view part : Split(value, ',')) {
                        DIVVY_CHECK(ApplyDependencies("afterany:" + std::string(Trim(part)), around, spec, *level));
                      }
                      return {};
                    },
                    {"afterany"}));
  table.push_back(
      Option::Flag("keep-waiting", "stay in the queue if a dependency can no longer be met", Sets(spec.keeps_waiting)));
}

void AddMany(Table& table, JobSpec& spec, const ParseContext& around, const std::shared_ptr<Level>& level) {
  table.push_back(Option::Value("array", 'a', "RANGES",
                                "one job for each index: 0-99, 1,3,7 or 0-15:4; 0-99%8 runs at most 8 at once",
                                Reads(spec.array, ReadArray)));
  table.push_back(Option::Value(
      "param", "NAME=VALUES",
      "one job for each value, which replaces {NAME} in the command: lr=1e-3,1e-4 or seed=0:9; repeatable",
      [&spec, level](std::string_view value) { return ApplyParameter(value, spec, *level); }));
  table.push_back(Option::Value(
      "param-file", "CSV", "one job for each row of the file; its header names the parameters",
      [&spec, &around, level](std::string_view value) { return ApplyParameterFile(value, around, spec, *level); }));
  table.push_back(Option::Value("name-template", "TEXT", "name of each job of a sweep: train-{lr}-{seed}",
                                Reads(spec.name_template, ReadLabel, 256u)));
  table.push_back(Option::Value("retries", "N", "restart the job up to N times if it fails (default: 0)",
                                Reads(spec.retries, ReadCount, 0, 1000, "retries")));
  table.push_back(Option::Value("retry-delay", "TIME",
                                "delay before the first retry; doubles up to one hour (default: 10s)",
                                Reads(spec.retry_delay, ParseDuration, 1s)));
  table.push_back(Option::Value("stale-grace", "TIME",
                                "how long a job on several nodes continues after it lost its part on one; never: it is "
                                "not ended for that (default: 0, it ends at once)",
                                [&spec](std::string_view value) -> Status {
                                  const bool is_endless = value == "never" || value.starts_with('-');
                                  DIVVY_TRY(const Duration grace, is_endless ? Duration(-1) : ParseDuration(value, 1s));
                                  spec.stale_grace = grace;
                                  return {};
                                }));
  table.push_back(Option::Value("group", "NAME", "group whose jobs share a limit on how many run at once",
                                Reads(spec.group, ReadLabel, 64u)));
  table.push_back(Option::Value("group-limit", "N", "limit of --group: how many of its jobs run at once",
                                Reads(spec.group_limit, ReadCount, 1, 1'000'000, "jobs")));
  table.push_back(Option::Value("preemptible", "HOW",
                                "whether other jobs may preempt it: never, pause to continue later, or requeue to "
                                "restart (default: the server's setting)",
                                [&spec](std::string_view value) -> Status {
                                  DIVVY_TRY(spec.preemptible, ReadPreemptible(value));
                                  spec.is_preemptible_set = true;
                                  return {};
                                }));
  table.push_back(Option::Flag(
      "no-pause",
      "keep its GPUs until it ends: it is neither parked nor preempted for other jobs, like --preemptible never",
      [&spec](std::string_view) -> Status {
        spec.preemptible = Preemptible::kNever;
        spec.is_preemptible_set = true;
        return {};
      }));
  table.push_back(Option::Flag("requeue-after-reboot", "restart the job if its node goes down while it runs",
                               Sets(spec.requeues_after_reboot)));
}

void AddFiles(Table& table, JobSpec& spec, const ParseContext& around, const std::shared_ptr<Level>& level) {
  const auto file = [&spec](std::string JobSpec::*field) {
    return [&spec, field](std::string_view value) -> Status {
      DIVVY_TRY(spec.*field, ReadPath(value));
      return {};
    };
  };
  table.push_back(Option::Value(
      "output", 'o', "FILE",
      "file for the output: %j job id, %A array id, %a array index, %x name, %u user (default: divvy's log)",
      file(&JobSpec::output)));
  table.push_back(Option::Value("error", 'e', "FILE", "file for standard error (default: the same as the output)",
                                file(&JobSpec::error)));
  table.push_back(
      Option::Value("input", 'i', "FILE", "file for standard input (default: /dev/null)", file(&JobSpec::input)));
  table.push_back(Option::Value("open-mode", "MODE", "append to the output file, or truncate it (default: truncate)",
                                Reads(spec.appends_output, ReadOpenMode)));
  table.push_back(Option::Value("chdir", 'D', "DIR", "working directory (default: the current directory)",
                                [&spec, &around](std::string_view value) -> Status {
                                  DIVVY_TRY(spec.directory, ReadDirectory(value, around));
                                  return {};
                                }));
  table.push_back(Option::Value(
      "export", "WHAT",
      "environment variables to copy into the job: ALL, NONE, or a list of NAME and NAME=VALUE (default: ALL)",
      [&spec](std::string_view value) { return ApplyExport(value, spec); }));
  table.push_back(
      Option::Value("env", "NAME=VALUE", "set an environment variable in the job; repeatable",
                    [&spec, level](std::string_view value) { return ApplyEnvironment(value, spec, *level); }));
  table.push_back(Option::Flag("pty", "allocate a terminal for the job", Sets(spec.wants_pty)));
}

void AddSignals(Table& table, JobSpec& spec) {
  table.push_back(Option::Value(
      "signal", "SIG@TIME",
      "send a signal this long before the time limit: USR1@300 (seconds); B:USR1@5m signals the script only",
      Reads(spec.warn, ReadWarnSignal)));
  table.push_back(Option::Value("stop-signal", "SIG", "signal that asks the job to end (default: TERM)",
                                Reads(spec.stop_signal, ParseSignal)));
  table.push_back(
      Option::Value("resize-signal", "SIG|none",
                    "signal that tells an elastic job that its GPUs change, see docs/elastic.md (default: USR1)",
                    [&spec](std::string_view value) -> Status {
                      if (value == "none") {
                        spec.resize_signal = 0;
                        return {};
                      }
                      DIVVY_TRY(spec.resize_signal, ParseSignal(value));
                      return {};
                    }));
  table.push_back(Option::Value("grace", "TIME",
                                "time from the stop signal to SIGKILL (default: the server's setting, 30s)",
                                Reads(spec.grace, ParseDuration, 1s)));
}

/// "a,b": checks that the list has no empty or duplicate names.
Status CheckPoolList(std::string_view list) {
  std::vector<std::string_view> seen;
  for (const std::string_view part : Split(list, ',')) {
    const std::string_view name = Trim(part);
    if (name.empty()) return InvalidArgument("the list of pools has an empty name; write it like a,b");
    if (std::ranges::find(seen, name) != seen.end()) return InvalidArgument("names " + Quoted(name) + " twice");
    seen.push_back(name);
  }
  return {};
}

void AddLabels(Table& table, JobSpec& spec) {
  const auto label = [&spec](std::string JobSpec::*field, std::size_t longest) {
    return [&spec, field, longest](std::string_view value) -> Status {
      DIVVY_TRY(spec.*field, ReadLabel(value, longest));
      return {};
    };
  };
  table.push_back(Option::Value("name", 'J', "NAME", "job name (default: the command's name)",
                                label(&JobSpec::name, 256), {"job-name"}));
  table.push_back(
      Option::Value("project", 'P', "NAME", "project that the job belongs to", label(&JobSpec::project, 64)));
  table.push_back(Option::Value("team", "NAME", "team whose quota and budget the job uses (default: your own team)",
                                label(&JobSpec::team, 64)));
  table.push_back(Option::Value("comment", "TEXT", "free-text comment", label(&JobSpec::comment, 1024)));
  table.push_back(Option::Value("account", 'A', "NAME", "account that the job is for", label(&JobSpec::account, 64)));
  table.push_back(Option::Value(
      "pool", "NAMES", "pool of nodes; with a,b the first that has room; only a label on a server without pools",
      [&spec](std::string_view value) -> Status {
        DIVVY_TRY(spec.pool, ReadLabel(value, 256));
        return CheckPoolList(spec.pool);
      },
      {"partition"}));
}

/// Checks only the event names; the daemon checks the receivers.
Status ApplyNotify(std::string_view value, JobSpec& spec) {
  std::string events;
  for (const std::string_view word : Split(value, ',')) {
    if (Trim(word) != "elements") events += (events.empty() ? "" : ",") + std::string(word);
  }
  if (events.empty()) return InvalidArgument("'elements' needs an event; write end,elements");
  DIVVY_TRY(const NotifyEvents checked, ParseNotifyEvents(events, false));
  static_cast<void>(checked);
  spec.labels[std::string(kNotifyLabel)] = value;
  return {};
}

Status ApplyNotifyTo(std::string_view value, JobSpec& spec) {
  for (const std::string_view word : Split(value, ',')) {
    const std::string_view one = Trim(word);
    if (!IsMailAddress(one))
      return InvalidArgument(Quoted(one) + " is neither a mail address nor a valid receiver name");
  }
  spec.labels[std::string(kNotifyToLabel)] = value;
  spec.labels.try_emplace(std::string(kNotifyLabel), "end");
  return {};
}

Status ApplyOnWaste(std::string_view value, JobSpec& spec) {
  if (!WasteActionOf(value))
    return InvalidArgument(Quoted(value) + " is not an action: expected none, park, pause, requeue or stop");
  spec.labels[std::string(kOnWasteLabel)] = value;
  return {};
}

void AddTelling(Table& table, JobSpec& spec) {
  table.push_back(Option::Value("notify", "EVENTS",
                                "events to notify about: start, end, fail, requeue, waste, all or none; add elements "
                                "for each element of an array",
                                [&spec](std::string_view value) { return ApplyNotify(value, spec); }));
  table.push_back(Option::Value(
      "notify-to", "WHOM", "mail addresses or names of receivers, see divvy notify (default: all of your receivers)",
      [&spec](std::string_view value) { return ApplyNotifyTo(value, spec); }));
  table.push_back(Option::Value("on-waste", "ACTION",
                                "action if the job leaves its GPUs idle, after warnings: none, park, pause, requeue or "
                                "stop (default: the server's setting)",
                                [&spec](std::string_view value) { return ApplyOnWaste(value, spec); }));
}

struct GroupedNames {
  OptionGroup group = OptionGroup::kNone;
  std::string_view names;
};

/// Where --help lists each option. An option without a group here is in kOther.
constexpr GroupedNames kGroups[] = {
    {OptionGroup::kMostUsed, "gpus gpu-type cpus memory nodes time array after output name"},
    {OptionGroup::kResources, "gpu-memory slice queue-anyway"},
    {OptionGroup::kGpuSharing, "gpu-limit gpu-memory-limit shared compute idle-park mps"},
    {OptionGroup::kPlacement, "topology placement constraint nodelist exclude pool no-grow provider max-price"},
    {OptionGroup::kTimeAndOrder,
     "begin deadline priority hold preemptible no-pause requeue-after-reboot retries retry-delay signal stop-signal "
     "resize-signal grace"},
    {OptionGroup::kDependencies, "dependency keep-waiting"},
    {OptionGroup::kArraysAndSweeps, "param param-file name-template group group-limit"},
    {OptionGroup::kInputAndOutput, "error input open-mode chdir export env pty label-output"},
    {OptionGroup::kMultiNode, "tasks gpus-per-task gpu-bind cpu-bind no-kill stale-grace components"},
    {OptionGroup::kContainers, "image mount container-workdir private-tmp private-shm"},
    {OptionGroup::kNotifications, "notify notify-to on-waste"},
};

void SetGroups(Table& table) {
  for (Option& option : table) option.group = OptionGroup::kOther;
  for (const GroupedNames& grouped : kGroups) {
    for (const std::string_view name : SplitWords(grouped.names)) {
      const auto found = std::ranges::find(table, name, &Option::name);
      if (found != table.end()) found->group = grouped.group;
    }
  }
}

}  // namespace

std::vector<Option> JobOptions(JobSpec& spec, const ParseContext& around) {
  const auto level = std::make_shared<Level>();
  Table table;
  AddResources(table, spec, level);
  AddWhen(table, spec, around, level);
  AddMany(table, spec, around, level);
  AddFiles(table, spec, around, level);
  AddSignals(table, spec);
  AddLabels(table, spec);
  AddTelling(table, spec);
  AddContainerOptions(table, spec);
  AddPrivateFolderOptions(table, spec);
  AddGrowthOptions(table, spec);
  SetGroups(table);
  return table;
}

}  // namespace divvy::dialect
