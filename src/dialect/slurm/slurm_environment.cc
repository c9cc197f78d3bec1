#include "dialect/slurm/slurm_environment.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/options/slurm_request.h"
#include "model/steps/task_layout.h"

namespace divvy::dialect {
namespace {

class Variables {
 public:
  void Set(std::string_view name, std::string_view value) {
    entries_.push_back(std::string(name) + "=" + std::string(value));
  }
  void Set(std::string_view name, std::int64_t value) { Set(name, std::to_string(value)); }
  /// Sets the variable to the option's value if the option was given.
  void SetOption(std::string_view name, const JobSpec& spec, std::string_view option) {
    if (const auto value = slurm::Value(spec, option)) Set(name, *value);
  }
  void Replace(std::string_view name, const std::string& value) {
    if (!ReplaceSet(name, value)) Set(name, value);
  }
  /// Replaces the variable if it is set. Returns false, without setting it, if it was not.
  bool ReplaceSet(std::string_view name, const std::string& value) {
    const auto at = std::ranges::find_if(entries_, [&](const std::string& entry) {
      return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
    });
    if (at != entries_.end()) *at = std::string(name) + "=" + value;
    return at != entries_.end();
  }
  std::vector<std::string> Sorted() {
    std::ranges::sort(entries_);
    return std::move(entries_);
  }

 private:
  std::vector<std::string> entries_;
};

std::int64_t Seconds(Time time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

bool SaysTasks(const JobSpec& spec) {
  constexpr std::array<std::string_view, 5> kOptions = {"ntasks", "ntasks-per-node", "ntasks-per-gpu", "gpus-per-task",
                                                        "tres-per-task"};
  return spec.is_foreground ||
         std::ranges::any_of(kOptions, [&](std::string_view option) { return slurm::Value(spec, option).has_value(); });
}

void AddJob(const JobRecord& record, const JobSpec& spec, std::string_view hostname, Time now, Variables& out) {
  out.Set("SLURM_CLUSTER_NAME", kSlurmCluster);
  const std::string id = ToString(record.id);
  out.Set("SLURM_JOB_ID", id);
  out.Set("SLURM_JOBID", id);
  out.Set("SLURM_JOB_NAME", record.name);
  out.Set("SLURM_JOB_USER", record.user.name);
  out.Set("SLURM_JOB_UID", record.user.uid);
  out.Set("SLURM_JOB_GID", record.user.gid);
  out.Set("SLURM_JOB_PARTITION", spec.pool.empty() ? kSlurmPartition : std::string_view(spec.pool));
  if (!spec.account.empty()) out.Set("SLURM_JOB_ACCOUNT", spec.account);
  out.SetOption("SLURM_JOB_QOS", spec, "qos");
  out.SetOption("SLURM_JOB_RESERVATION", spec, "reservation");
  out.SetOption("SLURM_JOB_LICENSES", spec, "licenses");
  out.SetOption("SLURM_PROFILE", spec, "profile");
  out.SetOption("SLURM_NETWORK", spec, "network");
  out.SetOption("SLURM_JOB_DEPENDENCY", spec, "dependency");
  if (!spec.comment.empty()) out.Set("SLURM_JOB_COMMENT", spec.comment);
  for (const std::string_view name :
       {"SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR"}) {
    out.Set(name, hostname);
  }
  out.Set("SLURM_TOPOLOGY_ADDR_PATTERN", "node");
  out.Set("SLURM_JOB_NUM_NODES", "1");
  out.Set("SLURM_NNODES", "1");
  out.Set("SLURM_NODEID", "0");
  out.Set("SLURM_NODE_ALIASES", "(null)");
  out.Set("SLURM_SUBMIT_HOST", slurm::Value(spec, "submit-host").value_or(std::string(hostname)));
  out.Set("SLURM_SUBMIT_DIR", slurm::Value(spec, "submit-dir").value_or(spec.directory));
  const Time started = record.started == kNoTime ? now : record.started;
  out.Set("SLURM_JOB_START_TIME", Seconds(started));
  if (record.time_limit > Duration(0))
    out.Set("SLURM_JOB_END_TIME", Seconds(AddSaturating(started, record.time_limit)));
  if (record.restarts > 0) out.Set("SLURM_RESTART_COUNT", record.restarts);
  // Tells srun inside the job what to export.
  if (slurm::Value(spec, "door") != "srun") out.SetOption("SLURM_EXPORT_ENV", spec, "export");
  std::array<char, 8> umask{};
  std::snprintf(umask.data(), umask.size(), "%04o", static_cast<unsigned>(spec.capture.umask) & 0777U);
  out.Set("SLURM_UMASK", umask.data());
}

void AddTasks(const JobRecord& record, const JobSpec& spec, Variables& out) {
  const std::int64_t tasks = std::max(record.request.tasks, 1);
  const std::int64_t cpus = std::max<std::int64_t>(record.request.cpus, tasks);
  for (const std::string_view name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS", "SLURM_PRIO_PROCESS"})
    out.Set(name, "0");
  out.Set("SLURM_TASK_PID", "");  // Set later, when the task exists (platform/supervisor/supervisor_job.cc).
  out.Set("SLURM_TASKS_PER_NODE", tasks);
  if (SaysTasks(spec)) {
    out.Set("SLURM_NTASKS", tasks);
    out.Set("SLURM_NPROCS", tasks);
  }
  out.Set("SLURM_CPUS_ON_NODE", cpus);
  out.Set("SLURM_JOB_CPUS_PER_NODE", cpus);
  out.SetOption("SLURM_NTASKS_PER_NODE", spec, "ntasks-per-node");
  out.SetOption("SLURM_NTASKS_PER_GPU", spec, "ntasks-per-gpu");
  out.SetOption("SLURM_NTASKS_PER_CORE", spec, "ntasks-per-core");
  out.SetOption("SLURM_NTASKS_PER_SOCKET", spec, "ntasks-per-socket");
  out.SetOption("SLURM_CPUS_PER_TASK", spec, "cpus-per-task");
  out.SetOption("SLURM_CPUS_PER_GPU", spec, "cpus-per-gpu");
  const std::string distribution = slurm::Value(spec, "distribution").value_or("");
  if (!distribution.empty()) out.Set("SLURM_DISTRIBUTION", distribution.substr(0, distribution.find('=')));
  if (distribution.starts_with("plane=")) out.Set("SLURM_DIST_PLANESIZE", distribution.substr(6));
  out.SetOption("SLURM_HINT", spec, "hint");
  out.SetOption("SLURM_THREADS_PER_CORE", spec, "threads-per-core");
  if (slurm::Value(spec, "overcommit")) out.Set("SLURM_OVERCOMMIT", "1");
  for (const auto& [variable, option] :
       {std::pair("SLURM_MEM_PER_NODE", "mem"), std::pair("SLURM_MEM_PER_CPU", "mem-per-cpu"),
        std::pair("SLURM_MEM_PER_GPU", "mem-per-gpu")}) {
    const auto value = slurm::Value(spec, option);
    if (!value) continue;
    if (const auto size = ParseSize(*value, 1 << 20)) out.Set(variable, size->count() >> 20);
  }
}

void AddGpus(const JobSpec& spec, const std::vector<int>& gpus, Variables& out) {
  out.SetOption("SLURM_GPUS", spec, "gpus");
  out.SetOption("SLURM_GPUS_PER_NODE", spec, "gpus-per-node");
  out.SetOption("SLURM_GPUS_PER_TASK", spec, "gpus-per-task");
  out.SetOption("SLURM_GPUS_PER_SOCKET", spec, "gpus-per-socket");
  out.SetOption("SLURM_TRES_PER_TASK", spec, "tres-per-task");
  out.SetOption("SLURM_GPU_BIND", spec, "gpu-bind");
  out.SetOption("SLURM_GPU_FREQ", spec, "gpu-freq");
  if (gpus.empty()) return;
  std::vector<std::string> indices;
  for (const int gpu : gpus) indices.push_back(std::to_string(gpu));
  out.Set("SLURM_JOB_GPUS", Join(indices, ","));
  out.Set("SLURM_GPUS_ON_NODE", static_cast<std::int64_t>(gpus.size()));
}

void AddArray(const JobRecord& record, const JobSpec& spec, Variables& out) {
  if (!record.array.is_set()) return;
  out.Set("SLURM_ARRAY_JOB_ID", ToString(record.array));
  out.Set("SLURM_ARRAY_TASK_ID", record.array_index);
  if (!spec.array || spec.array->indices.empty()) return;
  const IndexRanges& indices = spec.array->indices;
  out.Set("SLURM_ARRAY_TASK_COUNT", static_cast<std::int64_t>(indices.size()));
  out.Set("SLURM_ARRAY_TASK_MIN", indices.front());
  out.Set("SLURM_ARRAY_TASK_MAX", indices.back());
  const auto second = indices.Nth(1);
  out.Set("SLURM_ARRAY_TASK_STEP", second ? *second - indices.front() : 1);
}

/// A foreground job of srun is its own first step.
void AddStep(const JobSpec& spec, const std::vector<int>& gpus, std::string_view hostname, Variables& out) {
  if (slurm::Value(spec, "door") != "srun") return;
  for (const std::string_view name : {"SLURM_STEP_ID", "SLURM_STEPID"}) out.Set(name, "0");
  out.Set("SLURM_STEP_NODELIST", hostname);
  for (const std::string_view name : {"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"}) out.Set(name, "127.0.0.1");
  out.Set("SLURM_STEP_NUM_NODES", "1");
  out.Set("SLURM_STEP_NUM_TASKS", "1");
  out.Set("SLURM_STEP_TASKS_PER_NODE", "1");
  std::vector<std::string> indices;
  for (const int gpu : gpus) indices.push_back(std::to_string(gpu));
  if (!indices.empty()) out.Set("SLURM_STEP_GPUS", Join(indices, ","));
}

/// Replaces the single-node values with those for several nodes.
void AddNodes(const SlurmNodes& nodes, Variables& out) {
  std::vector<std::string> names;
  for (const std::string& name : nodes.names) names.push_back(name.substr(0, name.find('.')));
  const std::string list = FoldHostList(names);
  out.Replace("SLURM_JOB_NODELIST", list);
  out.Replace("SLURM_NODELIST", list);
  out.Replace("SLURM_JOB_NUM_NODES", std::to_string(names.size()));
  out.Replace("SLURM_NNODES", std::to_string(names.size()));
  out.Replace("SLURM_NODEID", std::to_string(nodes.own));
  out.Replace("SLURM_TASKS_PER_NODE", CountsText(nodes.tasks));
  out.Replace("SLURM_JOB_CPUS_PER_NODE", CountsText(nodes.cpus));
  std::int64_t tasks = 0;
  for (const int count : nodes.tasks) tasks += count;
  out.ReplaceSet("SLURM_NTASKS", std::to_string(tasks));
  out.ReplaceSet("SLURM_NPROCS", std::to_string(tasks));
}

/// Variables that Slurm sets for each component under its own name, and for the first one also under the plain name.
constexpr std::array<std::string_view, 29> kOfComponent = {"SLURM_CPUS_ON_NODE",
                                                           "SLURM_CPUS_PER_GPU",
                                                           "SLURM_CPUS_PER_TASK",
                                                           "SLURM_DISTRIBUTION",
                                                           "SLURM_GPUS",
                                                           "SLURM_GPUS_ON_NODE",
                                                           "SLURM_GPUS_PER_NODE",
                                                           "SLURM_GPUS_PER_TASK",
                                                           "SLURM_GPU_BIND",
                                                           "SLURM_JOB_ACCOUNT",
                                                           "SLURM_JOB_CPUS_PER_NODE",
                                                           "SLURM_JOB_GPUS",
                                                           "SLURM_JOB_ID",
                                                           "SLURM_JOB_NODELIST",
                                                           "SLURM_JOB_NUM_NODES",
                                                           "SLURM_JOB_PARTITION",
                                                           "SLURM_JOB_QOS",
                                                           "SLURM_MEM_PER_CPU",
                                                           "SLURM_MEM_PER_GPU",
                                                           "SLURM_MEM_PER_NODE",
                                                           "SLURM_NNODES",
                                                           "SLURM_NODELIST",
                                                           "SLURM_NPROCS",
                                                           "SLURM_NTASKS",
                                                           "SLURM_NTASKS_PER_CORE",
                                                           "SLURM_NTASKS_PER_GPU",
                                                           "SLURM_NTASKS_PER_NODE",
                                                           "SLURM_NTASKS_PER_SOCKET",
                                                           "SLURM_TASKS_PER_NODE"};
/// Variables about the first node of the job. They do not depend on the component.
constexpr std::array<std::string_view, 3> kOfMachine = {"SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_CPUS_ON_NODE"};

struct ComponentNodes {
  SlurmNodes nodes;
  std::vector<int> gpus;  // On its first node.
  int tasks = 0;
  int cpus = 0;  // On its first node.
};

ComponentNodes NodesOf(const JobRecord& record, const SlurmNodes& nodes, std::size_t component) {
  const Request request = ComponentOf(record.request, component);
  ComponentNodes own;
  for (std::size_t i = 0; i < nodes.parts.size(); ++i) {
    for (const ComponentAllocation& part : nodes.parts[i]) {
      if (static_cast<std::size_t>(part.component) != component) continue;
      const int all = std::max(request.spreads_tasks ? request.tasks : part.tasks, 1);
      const int cpus = std::max((request.cpus * part.tasks + all - 1) / all, part.tasks);
      if (own.nodes.names.empty()) {
        own.gpus = part.gpus.ToVector();
        own.cpus = cpus;
      }
      own.nodes.names.push_back(nodes.names[i]);
      own.nodes.tasks.push_back(part.tasks);
      own.nodes.cpus.push_back(cpus);
      own.tasks += part.tasks;
    }
  }
  return own;
}

/// The variables of one component, under the plain names.
std::vector<std::string> ComponentEnvironment(const JobRecord& record, const JobSpec& spec, const ComponentNodes& own,
                                              std::size_t component, Time now) {
  JobRecord part = record;
  JobSpec said = spec;
  part.request = ComponentOf(record.request, component);
  part.request.tasks = own.tasks;
  part.request.cpus = own.cpus;
  if (component > 0) {
    const Component& its = record.request.others[component - 1];
    said.labels = its.labels;
    if (!its.pool.empty()) said.pool = its.pool;
  }
  const std::string_view first = own.nodes.names.empty() ? std::string_view() : own.nodes.names.front();
  return SlurmEnvironment(part, said, own.gpus, first, now, own.nodes);
}

/// For a heterogeneous job: sets the plain names for the first component, and numbered names for each component.
void AddComponents(const JobRecord& record, const JobSpec& spec, const SlurmNodes& nodes, Time now, Variables& out) {
  out.Set("SLURM_HET_SIZE", static_cast<std::int64_t>(record.request.components()));
  for (std::size_t i = 0; i < record.request.components(); ++i) {
    const ComponentNodes own = NodesOf(record, nodes, i);
    for (const std::string& entry : ComponentEnvironment(record, spec, own, i, now)) {
      const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
      if (std::ranges::find(kOfComponent, name) == kOfComponent.end()) continue;
      // Task counts cover all its nodes, but CPUS_ON_NODE only the first.
      const std::string value = name == "SLURM_CPUS_ON_NODE" ? std::to_string(own.cpus)
                                : name == "SLURM_JOB_ID"     ? std::to_string(record.id.value() + i)
                                                             : entry.substr(name.size() + 1);
      out.Set(std::string(name) + "_HET_GROUP_" + std::to_string(i), value);
      const bool is_here = std::ranges::find(kOfMachine, name) != kOfMachine.end();
      if (i == 0 && !is_here) out.Replace(name, value);
    }
  }
}

}  // namespace

std::vector<std::string> SlurmEnvironment(const JobRecord& record, const JobSpec& spec, const std::vector<int>& gpus,
                                          std::string_view hostname, Time now, const SlurmNodes& nodes) {
  Variables out;
  const std::string_view node = hostname.substr(0, hostname.find('.'));
  AddJob(record, spec, node, now, out);
  AddTasks(record, spec, out);
  AddGpus(spec, gpus, out);
  AddArray(record, spec, out);
  AddStep(spec, gpus, node, out);
  if (!nodes.names.empty()) AddNodes(nodes, out);
  if (record.request.is_heterogeneous()) AddComponents(record, spec, nodes, now, out);
  if (!spec.is_foreground) out.Set("ENVIRONMENT", "BATCH");
  return out.Sorted();
}

std::vector<std::string> ScrubInherited(std::vector<std::string> environment) {
  // The user's settings; they do not describe a job.
  constexpr std::array<std::string_view, 6> kSettings = {
      "SLURM_ACCOUNT=",     "SLURM_CONF=",       "SLURM_CONF_SERVER=",
      "SLURM_TIME_FORMAT=", "SLURM_BITSTR_LEN=", "SLURM_HOSTFILE="};
  // SLURM_CPU_BIND is a setting of the user for the steps of the job, unless an enclosing step has set it.
  const bool is_bound = std::ranges::any_of(
      environment, [](const std::string& entry) { return entry.starts_with("SLURM_CPU_BIND_TYPE="); });
  constexpr std::array<std::string_view, 5> kJobs = {"SLURM_", "SLURMD_", "SRUN_", "PMI_", "PMIX_"};
  std::erase_if(environment, [&](const std::string& entry) {
    const auto begins = [&](std::string_view prefix) { return entry.starts_with(prefix); };
    if (!is_bound && begins("SLURM_CPU_BIND=")) return false;
    return std::ranges::any_of(kJobs, begins) && std::ranges::none_of(kSettings, begins);
  });
  return environment;
}

}  // namespace divvy::dialect
