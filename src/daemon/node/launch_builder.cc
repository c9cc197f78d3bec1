#include "daemon/node/launch_builder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/node/job_log.h"
#include "dialect/options/container_options.h"
#include "dialect/options/job_options.h"
#include "dialect/options/private_folders.h"
#include "dialect/options/task_options.h"
#include "dialect/slurm/slurm_environment.h"
#include "model/run_description.h"
#include "model/steps/gang_environment.h"
#include "platform/records/step_list_file.h"
#include "wire/messages/agent_codec.h"
#include "wire/messages/agent_messages.h"

namespace divvy {
namespace {

/// Puts `first` at the front of a list variable such as PATH; `otherwise` is the list if the job does not set the
/// variable.
void FindFirst(const std::string& name, const std::string& first, std::vector<std::string>& environment,
               std::string_view otherwise = "") {
  if (first.empty()) return;
  const std::string begin = name + "=";
  auto list = std::ranges::find_if(environment, [&](const std::string& one) { return one.starts_with(begin); });
  if (list == environment.end()) list = environment.insert(list, begin + std::string(otherwise));
  std::string& text = *list;
  text.insert(begin.size(), first + (text.size() > begin.size() ? ":" : ""));
}

/// The keeper's variables for a tenant override the job's. For LD_PRELOAD, the job's own libraries are kept behind the
/// keeper's.
void AddGrant(const ShareGrant& grant, std::vector<std::string>& environment) {
  constexpr std::string_view kPreload = "LD_PRELOAD=";
  for (const std::string& entry : grant.environment) {
    if (entry.starts_with(kPreload)) FindFirst("LD_PRELOAD", entry.substr(kPreload.size()), environment);
    else environment = MergeEnvironment(std::vector<std::vector<std::string>>{environment, {entry}});
  }
}

/// Removes variables of gangs, because a job must not inherit them from the shell that submitted it.
std::vector<std::string> WithoutGang(std::vector<std::string> environment) {
  GangFile any;
  any.members.resize(1);
  // Two components, so that their variables are included.
  any.members.front().parts = {{0, GpuSet(), 1}, {1, GpuSet(), 1}};
  const std::vector<std::string> told = GangEnvironment(any, "");
  std::erase_if(environment, [&](const std::string& entry) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('=') + 1);
    return std::ranges::any_of(told, [&](const std::string& one) { return one.starts_with(name); });
  });
  return environment;
}

/// Returns the specification with the tasks of all nodes.
JobSpec WholeOf(const JobRecord& record, const JobSpec& spec) {
  JobSpec whole = spec;
  if (record.gang.empty()) return whole;
  whole.request.tasks = 0;
  for (const NodeAllocation& allocation : record.gang) whole.request.tasks += allocation.tasks;
  return whole;
}

/// The description of a run for its run record. Fields that may hold a secret or be long stay in the store only.
std::string AboutLaunch(const JobRecord& record, GpuSet gpus, const JobSpec& spec) {
  constexpr std::size_t kLongestCommand = 4096;
  RunDescription run;
  run.record = record;
  run.record.gpus = gpus;
  run.record.comment.clear();
  run.gpu_parts = record.gpu_parts.ten_thousandths();
  std::size_t length = 0;
  for (const std::string& word : spec.command) {
    length += word.size();
    if (length > kLongestCommand) break;
    run.spec.command.push_back(word);
  }
  run.spec.name = spec.name;
  run.spec.directory = spec.directory;
  run.spec.input = spec.input;
  run.spec.output = spec.output;
  run.spec.error = spec.error;
  run.spec.dialect = spec.dialect;
  run.spec.stop_signal = spec.stop_signal;
  run.spec.resize_signal = spec.resize_signal;
  run.spec.grace = spec.grace;
  run.spec.is_foreground = spec.is_foreground;
  run.spec.wants_pty = spec.wants_pty;
  constexpr std::size_t kLongest = std::size_t{16} << 10;
  std::string text = wire::EncodeAgent(run);
  if (text.size() > kLongest) {  // Paths can be long as well.
    run.spec = JobSpec();
    text = wire::EncodeAgent(run);
  }
  return text.size() > kLongest ? std::string() : text;
}

int TasksOf(const JobRecord& record) {
  int tasks = 0;
  for (const NodeAllocation& allocation : record.gang) tasks += allocation.tasks;
  return std::max(tasks, 1);
}

/// The share of `tasks` out of `all` tasks, rounded up.
std::int64_t ShareOfTasks(std::int64_t whole, int tasks, int all) { return (whole * tasks + all - 1) / all; }

/// Returns the job's record reduced to its allocation on the node of `command`.
JobRecord PartOf(const LaunchCommand& command) {
  JobRecord part = command.record;
  if (command.allocation_index >= part.gang.size()) return part;
  const int tasks = part.gang[command.allocation_index].tasks;
  if (part.request.is_heterogeneous()) {
    const NodeAllocation& allocation = part.gang[command.allocation_index];
    int cpus = 0;
    Bytes memory;
    bool is_unbound = false, has_all_cores = false;
    for (const ComponentAllocation& its : allocation.parts) {
      const Request component = ComponentOf(part.request, static_cast<std::size_t>(its.component));
      const int all = component.spreads_tasks ? std::max(component.tasks, 1) : std::max(its.tasks, 1);
      cpus += static_cast<int>(ShareOfTasks(component.cpus, its.tasks, all));
      memory += Bytes(ShareOfTasks(component.memory.count(), its.tasks, all));
      is_unbound = is_unbound || component.memory == Bytes(0);
      has_all_cores = has_all_cores || component.cpus == 0;
    }
    // One cgroup holds everything here: if one component has no limit, there is none.
    part.request.cpus = has_all_cores ? 0 : cpus;
    part.request.memory = is_unbound ? Bytes(0) : memory;
  } else if (part.request.spreads_tasks) {
    const int all = TasksOf(part);
    part.request.cpus = static_cast<int>(ShareOfTasks(part.request.cpus, tasks, all));
    part.request.memory = Bytes(ShareOfTasks(part.request.memory.count(), tasks, all));
  }
  part.request.tasks = tasks;
  return part;
}

}  // namespace

OwnFolders FoldersOf(const JobSpec& spec) {
  const dialect::PrivateFolders asked = dialect::ReadPrivateFolders(spec);
  return {asked.tmp, asked.shm};
}

LaunchRequest LaunchBuilder::RequestFor(const LaunchCommand& command, const JobSpec& spec, const User& here,
                                        const ShareGrant* grant) const {
  JobRecord record = PartOf(command);
  if (grant != nullptr) record.gpus = GpuSet::Of(grant->gpus);
  std::map<std::string, std::string> parameters;
  if (!spec.parameters.empty()) parameters = dialect::ElementAt(spec, record.array_ordinal).parameters;
  LaunchRequest request;
  request.job = record.id;
  request.attempt = record.attempt;
  for (const std::string& word : spec.command)
    request.argv.push_back(parameters.empty() ? word : dialect::FillParameters(word, parameters));
  request.script = parameters.empty() ? spec.script : dialect::FillParameters(spec.script, parameters);
  request.script_name = spec.name;
  for (const std::string& word : spec.arguments)
    request.arguments.push_back(parameters.empty() ? word : dialect::FillParameters(word, parameters));
  std::vector<std::vector<std::string>> layers = {
      options_.gpu_environment, record.gang.empty() ? spec.capture.environment : WithoutGang(spec.capture.environment),
      DivvyEnvironment(record, spec, gpus_, parameters, options_.names), DialectEnvironment(command, record, spec)};
  if (record.request.is_elastic()) layers.push_back({"DIVVY_GPUS_FILE=" + GpusFile(options_.run_directory, record.id)});
  const std::int64_t owner = options_.may_change_user ? here.uid : options_.uid;
  layers.push_back({"DIVVY_STEPS=" + StepListPath(options_.run_directory, owner, record.id.value())});
  const GpuSet open = grant == nullptr ? record.gpus : record.gpus | grant->reachable;
  request.isolation = IsolationOf(options_.isolation, gpus_, open, record.request.is_elastic());
  if (grant != nullptr) CloseOtherSlices(options_.isolation, grant->device_files, request.isolation);
  static_cast<void>(SetOwnFolders(options_.isolation, FoldersOf(spec), request.isolation));
  if (options_.isolation.wishes.limits_cpus) request.isolation.cpus = record.request.cpus;
  // For a GPU fraction, the keeper sets the visible devices: more devices are open to the job than it is on.
  if (request.isolation.lock != DeviceLock::kNone && (grant == nullptr || grant->is_whole)) {
    const std::string counted = VisibleDevices(request.isolation, record.gpus, open);
    layers.push_back({"CUDA_VISIBLE_DEVICES=" + counted, "DIVVY_CUDA_INDICES=" + counted});
  }
  layers.push_back(spec.extra_environment);
  request.environment = MergeEnvironment(layers);
  FindFirst("LD_LIBRARY_PATH", options_.gpu_libraries, request.environment);
  if (grant != nullptr) AddGrant(*grant, request.environment);
  // A script's srun must be divvy's, even if another one is installed.
  if (spec.dialect == Dialect::kSlurm)
    FindFirst("PATH", options_.slurm_directory, request.environment, "/usr/local/bin:/usr/bin:/bin");
  request.directory = spec.directory;
  request.umask = spec.capture.umask;
  request.input = spec.input;
  request.output = OutputOf(record, spec);
  request.error = ErrorOf(record, spec);
  // A restarted job appends to its files, so that the output of the first run can still be read.
  request.appends_output = spec.appends_output || record.restarts > 0;
  request.is_own_log = spec.output.empty() && !spec.is_foreground;
  IntoContainer(spec, grant, request);
  if (record.gang.empty() ? dialect::StartsTasks(spec) : dialect::StartsTasks(WholeOf(record, spec)))
    StartTasks(record, record.gang.empty() ? spec : WholeOf(record, spec), request);
  request.uid = here.uid;
  request.gid = here.gid;
  request.right = users_.WithRight(here).right;
  request.limits = spec.capture.limits;
  request.wants_pty = spec.wants_pty;
  request.time_limit = record.time_limit;
  request.warn = spec.warn;
  request.is_slurm_script = spec.dialect == Dialect::kSlurm && !spec.script.empty();
  request.stop_signal = spec.stop_signal;
  request.grace = options_.GraceOf(spec);
  request.lease = options_.lease;
  request.about = AboutLaunch(command.record, record.gpus, spec);
  request.memory_limit = record.request.memory;
  if (!record.gang.empty()) TakeAllocation(command, request);
  return request;
}

/// The first process starts the command once per task, as a step of its own job. If each task has its own file, the
/// step opens it, and messages about the tasks go to divvy's log.
void LaunchBuilder::StartTasks(const JobRecord& record, const JobSpec& spec, LaunchRequest& request) const {
  request.argv = dialect::TaskStarter(options_.divvy, spec, request.argv);
  if (dialect::NamesTask(spec.error)) request.error.clear();
  if (!dialect::NamesTask(spec.output)) return;
  request.output = options_.log_directory + "/" + ToString(record.id) + ".log";
  request.is_own_log = true;
}

// For the nodes of a gang. The job's program runs on the first node; on the others, only tasks of steps are started.
void LaunchBuilder::TakeAllocation(const LaunchCommand& command, LaunchRequest& request) const {
  request.gang.starter = options_.divvy;
  request.gang.index = command.allocation_index;
  if (command.allocation_index == 0) return;
  request.argv.clear();
  request.script.clear();
  request.arguments.clear();
  request.input.clear();
  request.output = options_.log_directory + "/" + ToString(command.record.id) + ".log";
  request.error.clear();
  request.is_own_log = true;
  request.wants_pty = false;
}

std::vector<std::string> LaunchBuilder::DialectEnvironment(const LaunchCommand& command, const JobRecord& part,
                                                           const JobSpec& spec) const {
  if (spec.dialect == Dialect::kSlurm) {
    // If the job names several pools, this is the one that it runs in.
    JobSpec in_pool = spec;
    if (!part.pool_of_run.empty()) in_pool.pool = part.pool_of_run;
    else if (!part.pool.empty()) in_pool.pool = part.pool;
    return SlurmVariables(command, part, in_pool);
  }
  if (spec.dialect == Dialect::kGflow) {
    return {"GFLOW_JOB_ID=" + ToString(part.id), "GFLOW_JOB_NAME=" + part.name,
            "GFLOW_ARRAY_TASK_ID=" + std::to_string(part.array.is_set() ? part.array_index : 0)};
  }
  if (spec.dialect == Dialect::kValohai) {
    return {"VH_JOB_ID=exec-" + ToString(part.id), "VH_EXECUTION_ID=" + ToString(part.id),
            "VH_GPUS=" + std::to_string(part.gpus.size())};
  }
  return {};
}

std::vector<std::string> LaunchBuilder::SlurmVariables(const LaunchCommand& command, const JobRecord& part,
                                                       const JobSpec& spec) const {
  dialect::SlurmNodes nodes;
  nodes.own = command.allocation_index;
  for (std::uint32_t i = 0; i < command.record.gang.size(); ++i) {
    const JobRecord other = PartOf(LaunchCommand{command.record, "", i});
    nodes.names.push_back(options_.NameOf(command.record.gang[i]));
    nodes.tasks.push_back(other.request.tasks);
    nodes.cpus.push_back(std::max(other.request.cpus, other.request.tasks));
    nodes.parts.push_back(command.record.gang[i].parts);
  }
  return dialect::SlurmEnvironment(part, spec, part.gpus.ToVector(), options_.names.name(), part.started, nodes);
}

std::string LaunchBuilder::OutputOf(const JobRecord& record, const JobSpec& spec) const {
  return OutputPath(record, spec, options_.names, options_.log_directory);
}

std::string LaunchBuilder::ErrorOf(const JobRecord& record, const JobSpec& spec) const {
  return ErrorPath(record, spec, options_.names);
}

}  // namespace divvy
