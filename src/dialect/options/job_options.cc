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

/// The options that one level has seen; its closures share it.
struct Level {
  bool has_gpus = false;
  bool has_dependencies = false;
  std::set<std::string, std::less<>> parameters;
};

Status ApplyDependencies(std::string_view text, const Surroundings& around, JobSpec& spec, Level& level) {
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
    spec.request.gpus_most = 0;
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

Status ApplyParameterFile(std::string_view path, const Surroundings& around, JobSpec& spec, Level& level) {
  DIVVY_TRY(const std::string csv, ReadNamedFile(path, around));
  const std::size_t before = spec.parameters.size();
  DIVVY_CHECK(ParseParameterFile(csv, path, spec));
  for (std::size_t i = before; i < spec.parameters.size(); ++i) level.parameters.insert(spec.parameters[i].name);
  return {};
}

using Table = std::vector<Option>;

void AddResources(Table& table, JobSpec& spec, const std::shared_ptr<Level>& level) {
  table.push_back({"gpus", 'g', Takes::kValue, "N|N..M|0.25|2x0.5",
                   "GPUs that the job gets on each machine; 2..8: at least 2, and up to 8 of those free at its start; "
                   "0.25: a part of "
                   "one; 2x0.5: half of each of two",
                   [&spec, level](std::string_view value) -> Status {
                     DIVVY_CHECK(ApplyGpus(value, spec.request));
                     level->has_gpus = true;
                     return {};
                   }});
  table.push_back({"gpu-type", 0, Takes::kValue, "SPEC",
                   "model of the GPUs, such as h100, \"h100|a100\" or \"h100&80gb\"; \"h100*1.0|a100*0.55\" says how "
                   "fast it is on each",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.request.gpu_type, ReadGpuType(value));
                     return {};
                   }});
  table.push_back({"gpu-memory", 0, Takes::kValue, "SIZE",
                   "memory that each GPU has at least, such as 40G; without "
                   "--gpus, or with --shared: what the job takes of it",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.request.gpu_memory, ParseSize(value, kMebibyte));
                     if (spec.request.gpu_memory == Bytes()) spec.request.gpu_memory = kNoGpuMemory;
                     return {};
                   }});
  table.push_back({"cpus", 'c', Takes::kValue, "N", "CPU cores that the job claims on each machine",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.request.cpus, ReadCount(value, 0, 65'536, "CPUs"));
                     return {};
                   }});
  table.push_back({"memory",
                   0,
                   Takes::kValue,
                   "SIZE",
                   "host memory that the job may use on each machine, such as 64G",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.request.memory, ParseSize(value, kMebibyte));
                     return {};
                   },
                   {"mem"}});
  table.push_back({"tasks",
                   'n',
                   Takes::kValue,
                   "N",
                   "how often the command is started on all machines together, each with a rank of its own; a script "
                   "is started once",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(const int tasks, ReadCount(value, 1, 65'536, "tasks"));
                     SetTasks(spec, tasks);
                     return {};
                   },
                   {"ntasks"}});
  AddTaskOptions(table, spec);
  AddNodeOptions(table, spec);
  AddPortionOptions(table, spec);
  table.push_back(
      {"topology", 0, Takes::kValue, "WAY",
       "GPUs that reach each other well: any, numa (one NUMA node), nvlink (every pair joined); machines that "
       "do: rack, block (of one); numa:required waits where less is free",
       [&spec](std::string_view value) { return ParseTopology(value, spec.request); }});
  table.push_back({"placement", 0, Takes::kValue, "HOW",
                   "which free GPUs: best (connected best), sequential (lowest index first), random, pack or spread",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.placement, ReadPlacement(value));
                     spec.is_placement_set = true;
                     return {};
                   }});
  table.push_back({"queue-anyway", 0, Takes::kNothing, "", "wait even for more than this server can ever give",
                   [&spec](std::string_view) -> Status {
                     spec.queues_anyway = true;
                     return {};
                   }});
}

void AddWhen(Table& table, JobSpec& spec, const Surroundings& around, const std::shared_ptr<Level>& level) {
  table.push_back({"time",
                   't',
                   Takes::kValue,
                   "TIME",
                   "time limit, such as 90m, 1h30m or 02:00:00 (a bare number: minutes)",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.time_limit, ReadTimeLimit(value));
                     return {};
                   },
                   {"time-limit"}});
  table.push_back({"begin", 0, Takes::kValue, "WHEN",
                   "start no earlier than: now+1h, 16:00, tomorrow, 2026-03-01T16:00",
                   [&spec, &around](std::string_view value) -> Status {
                     DIVVY_TRY(spec.begin, ParseMoment(value, around.now, around.utc_offset));
                     if (spec.begin < around.now)
                       AddNote(spec, "--begin " + std::string(value) + " has passed: starts as soon as it can");
                     return {};
                   }});
  table.push_back({"deadline", 0, Takes::kValue, "WHEN",
                   "has ended by then: leaves the queue when it could start too late only, and is stopped then",
                   [&spec, &around](std::string_view value) -> Status {
                     DIVVY_TRY(spec.end_by, ParseMoment(value, around.now, around.utc_offset));
                     if (spec.end_by <= around.now) return InvalidArgument(Quoted(value) + " has passed");
                     return {};
                   }});
  table.push_back({"priority", 'p', Takes::kValue, "N", "higher goes first; 0 unless given, negative is polite",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.priority, ReadCount(value, -kMostPriority, kMostPriority, "priority"));
                     return {};
                   }});
  table.push_back(
      {"hold", 'H', Takes::kNothing, "", "keep it back until 'divvy release'", [&spec](std::string_view) -> Status {
         spec.is_held = true;
         return {};
       }});
  table.push_back(
      {"dependency",
       'd',
       Takes::kValue,
       "LIST",
       "wait for jobs: afterok:12:13, afterany:14, after:12+5, singleton, @",
       [&spec, &around, level](std::string_view value) { return ApplyDependencies(value, around, spec, *level); },
       {"depends-on"}});
  table.push_back({"after",
                   0,
                   Takes::kValue,
                   "IDS",
                   "wait until these jobs have ended, however they did: 12, 12:13, @",
                   [&spec, &around, level](std::string_view value) -> Status {
                     for (std::string_view part : Split(value, ',')) {
                       DIVVY_CHECK(ApplyDependencies("afterany:" + std::string(Trim(part)), around, spec, *level));
                     }
                     return {};
                   },
                   {"afterany"}});
  table.push_back({"keep-waiting", 0, Takes::kNothing, "", "stay in the queue when a dependency can no longer be met",
                   [&spec](std::string_view) -> Status {
                     spec.keeps_waiting = true;
                     return {};
                   }});
}

void AddMany(Table& table, JobSpec& spec, const Surroundings& around, const std::shared_ptr<Level>& level) {
  table.push_back({"array", 'a', Takes::kValue, "RANGES",
                   "one job for each index: 0-99, 1,3,7, 0-15:4; %8 behind it: 8 at a time",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.array, ReadArray(value));
                     return {};
                   }});
  table.push_back({"param", 0, Takes::kValue, "NAME=VALUES",
                   "one job for each value, and {NAME} replaced by it: lr=1e-3,1e-4, seed=0:9",
                   [&spec, level](std::string_view value) { return ApplyParameter(value, spec, *level); }});
  table.push_back(
      {"param-file", 0, Takes::kValue, "CSV", "one job for each row; the header names the parameters",
       [&spec, &around, level](std::string_view value) { return ApplyParameterFile(value, around, spec, *level); }});
  table.push_back({"name-template", 0, Takes::kValue, "TEXT", "name of each job of a sweep: train-{lr}-{seed}",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.name_template, ReadLabel(value, 256));
                     return {};
                   }});
  table.push_back({"retries", 0, Takes::kValue, "N", "run again up to N times when it fails",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.retries, ReadCount(value, 0, 1000, "retries"));
                     return {};
                   }});
  table.push_back({"retry-delay", 0, Takes::kValue, "TIME",
                   "wait before the first retry; doubles up to an hour (10s unless given)",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.retry_delay, ParseDuration(value, 1s));
                     return {};
                   }});
  table.push_back({"group", 0, Takes::kValue, "NAME", "group whose jobs share a cap on how many run together",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.group, ReadLabel(value, 64));
                     return {};
                   }});
  table.push_back(
      {"group-limit", 0, Takes::kValue, "N", "the cap of --group", [&spec](std::string_view value) -> Status {
         DIVVY_TRY(spec.group_limit, ReadCount(value, 1, 1'000'000, "jobs"));
         return {};
       }});
  table.push_back({"preemptible", 0, Takes::kValue, "HOW",
                   "whether it may be stopped for other jobs: never, pause (goes on later) or requeue (starts again)",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.preemptible, ReadPreemptible(value));
                     spec.is_preemptible_set = true;
                     return {};
                   }});
  table.push_back({"requeue-after-reboot", 0, Takes::kNothing, "", "run again when the machine went down under it",
                   [&spec](std::string_view) -> Status {
                     spec.requeues_after_reboot = true;
                     return {};
                   }});
}

void AddFiles(Table& table, JobSpec& spec, const Surroundings& around, const std::shared_ptr<Level>& level) {
  const auto file = [&spec](std::string JobSpec::*field) {
    return [&spec, field](std::string_view value) -> Status {
      DIVVY_TRY(spec.*field, ReadPath(value));
      return {};
    };
  };
  table.push_back({"output", 'o', Takes::kValue, "FILE",
                   "write the output there (%j id, %A array, %a index, %x name, %u user) instead of divvy's log",
                   file(&JobSpec::output)});
  table.push_back({"error", 'e', Takes::kValue, "FILE", "write the errors there; they join the output unless given",
                   file(&JobSpec::error)});
  table.push_back({"input", 'i', Takes::kValue, "FILE", "read standard input from there; /dev/null unless given",
                   file(&JobSpec::input)});
  table.push_back({"open-mode", 0, Takes::kValue, "MODE", "append or truncate the output file",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.appends_output, ReadOpenMode(value));
                     return {};
                   }});
  table.push_back({"chdir", 'D', Takes::kValue, "DIR", "directory to run in; the present one unless given",
                   [&spec, &around](std::string_view value) -> Status {
                     DIVVY_TRY(spec.directory, ReadDirectory(value, around));
                     return {};
                   }});
  table.push_back({"export", 0, Takes::kValue, "WHAT", "environment to take along: ALL, NONE, or names and NAME=VALUE",
                   [&spec](std::string_view value) { return ApplyExport(value, spec); }});
  table.push_back({"env", 0, Takes::kValue, "NAME=VALUE", "set a variable in the job; may be given several times",
                   [&spec, level](std::string_view value) { return ApplyEnvironment(value, spec, *level); }});
  table.push_back(
      {"pty", 0, Takes::kNothing, "", "give the job a terminal of its own", [&spec](std::string_view) -> Status {
         spec.wants_pty = true;
         return {};
       }});
}

void AddSignals(Table& table, JobSpec& spec) {
  table.push_back({"signal", 0, Takes::kValue, "SIG@TIME",
                   "send SIG so long before the time limit: USR1@300 (seconds), B:USR1@5m to the script alone",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.warn, ReadWarnSignal(value));
                     return {};
                   }});
  table.push_back({"stop-signal", 0, Takes::kValue, "SIG", "first signal to a job that is to end (TERM unless given)",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.stop_signal, ParseSignal(value));
                     return {};
                   }});
  table.push_back({"resize-signal", 0, Takes::kValue, "SIG|none",
                   "tells an elastic job that its GPUs change (USR1 unless given); docs/elastic.md",
                   [&spec](std::string_view value) -> Status {
                     if (value == "none") {
                       spec.resize_signal = 0;
                       return {};
                     }
                     DIVVY_TRY(spec.resize_signal, ParseSignal(value));
                     return {};
                   }});
  table.push_back({"grace", 0, Takes::kValue, "TIME",
                   "from the stop signal to SIGKILL (the server's own, 30s, unless given)",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.grace, ParseDuration(value, 1s));
                     return {};
                   }});
}

/// "a,b": checks that the list has no empty or duplicate names.
Status CheckPoolList(std::string_view list) {
  std::vector<std::string_view> seen;
  for (const std::string_view part : Split(list, ',')) {
    const std::string_view name = Trim(part);
    if (name.empty()) return InvalidArgument("a pool is missing between two commas or at an end");
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
  table.push_back({"name",
                   'J',
                   Takes::kValue,
                   "NAME",
                   "name of the job; that of the command unless given",
                   label(&JobSpec::name, 256),
                   {"job-name"}});
  table.push_back({"project", 'P', Takes::kValue, "NAME", "project that it belongs to", label(&JobSpec::project, 64)});
  table.push_back({"team", 0, Takes::kValue, "NAME", "team whose share it runs on; your own unless given",
                   label(&JobSpec::team, 64)});
  table.push_back({"comment", 0, Takes::kValue, "TEXT", "words for people", label(&JobSpec::comment, 1024)});
  table.push_back({"account", 'A', Takes::kValue, "NAME", "account that it is for", label(&JobSpec::account, 64)});
  table.push_back({"pool",
                   0,
                   Takes::kValue,
                   "NAMES",
                   "pool of machines; of a,b the first that has room; a label on one server without pools",
                   [&spec](std::string_view value) -> Status {
                     DIVVY_TRY(spec.pool, ReadLabel(value, 256));
                     return CheckPoolList(spec.pool);
                   },
                   {"partition"}});
}

/// Checks only the event names; the daemon checks the receivers.
Status ApplyNotify(std::string_view value, JobSpec& spec) {
  std::string events;
  for (const std::string_view word : Split(value, ',')) {
    if (Trim(word) != "elements") events += (events.empty() ? "" : ",") + std::string(word);
  }
  if (events.empty()) return InvalidArgument("an event is missing before 'elements'; write end,elements");
  DIVVY_TRY(const NotifyEvents checked, ParseNotifyEvents(events, false));
  static_cast<void>(checked);
  spec.labels[std::string(kNotifyLabel)] = value;
  return {};
}

Status ApplyNotifyTo(std::string_view value, JobSpec& spec) {
  for (const std::string_view word : Split(value, ',')) {
    const std::string_view one = Trim(word);
    if (!IsMailAddress(one)) return InvalidArgument(Quoted(one) + " is no mail address, nor a name of a receiver");
  }
  spec.labels[std::string(kNotifyToLabel)] = value;
  spec.labels.try_emplace(std::string(kNotifyLabel), "end");
  return {};
}

Status ApplyOnWaste(std::string_view value, JobSpec& spec) {
  if (!WasteActionOf(value)) return InvalidArgument(Quoted(value) + " is none of none, park, pause, requeue and stop");
  spec.labels[std::string(kOnWasteLabel)] = value;
  return {};
}

void AddTelling(Table& table, JobSpec& spec) {
  table.push_back({"notify", 0, Takes::kValue, "EVENTS",
                   "tell of it when: start, end, fail, requeue, waste, all or none; with elements of each in an array",
                   [&spec](std::string_view value) { return ApplyNotify(value, spec); }});
  table.push_back({"notify-to", 0, Takes::kValue, "WHOM",
                   "mail addresses, or names of receivers (divvy notify); all receivers of yours unless given",
                   [&spec](std::string_view value) { return ApplyNotifyTo(value, spec); }});
  table.push_back({"on-waste", 0, Takes::kValue, "ACTION",
                   "where it leaves its GPUs idle, and after warnings: none, park, pause, requeue or stop",
                   [&spec](std::string_view value) { return ApplyOnWaste(value, spec); }});
}

}  // namespace

std::vector<Option> JobOptions(JobSpec& spec, const Surroundings& around) {
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
  return table;
}

}  // namespace divvy::dialect
