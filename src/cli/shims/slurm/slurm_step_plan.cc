#include "cli/shims/slurm/slurm_step_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/index_ranges.h"
#include "base/text.h"
#include "dialect/options/container_options.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm.h"

namespace divvy::cli::slurm {
namespace {

namespace options = divvy::dialect::slurm;

/// Moves the options about nodes from `spec` into `ask`. The rest then describes a single node.
Status ReadMachines(JobSpec& spec, StepOptions& ask) {
  LayoutRequest& layout = ask.layout;
  if (const auto nodes = options::Value(spec, "nodes")) {
    DIVVY_TRY(const options::NodeRange range, options::ParseNodes(*nodes));
    layout.nodes = static_cast<int>(std::clamp<std::int64_t>(range.least, 0, kMostNodes));
    // As in Slurm, "2" means "2-2" for a step.
    layout.nodes_most = static_cast<int>(std::clamp<std::int64_t>(range.most, layout.nodes, kMostNodes));
  }
  for (const auto& [option, names] : {std::pair("nodelist", &ask.machines), std::pair("exclude", &ask.left_out)}) {
    const std::string list = options::Value(spec, option).value_or("");
    if (list.empty()) continue;
    DIVVY_TRY(*names, dialect::ExpandHostList(list));
  }
  for (const char* option : {"nodes", "nodelist", "exclude"}) options::Forget(spec, option);
  return {};
}

/// Moves the options about the layout of tasks on several nodes from `spec` into `ask`.
void ReadLayoutRequest(JobSpec& spec, StepOptions& ask) {
  LayoutRequest& layout = ask.layout;
  layout.tasks = static_cast<int>(options::Number(spec, "ntasks").value_or(0));
  layout.tasks_per_node = static_cast<int>(options::Number(spec, "ntasks-per-node").value_or(0));
  layout.is_cyclic = options::Value(spec, "distribution").value_or("").starts_with("cyclic");
  for (const char* option : {"ntasks-per-node", "distribution"}) options::Forget(spec, option);
}

/// Runs prolog, task and epilog in a shell. As in Slurm, an epilog is killed after some seconds, so that it cannot keep
/// the step's resources; its status is that of wait(). With an epilog the task is the shell's child, and the shell
/// survives signals that end the task.
constexpr std::string_view kHooked = R"sh(prolog=$1 epilog=$2
shift 2
if [ -n "$prolog" ]; then
  said=$("$prolog" </dev/null) || echo "srun: error: task_prolog $prolog ended with $?" >&2
  while IFS= read -r line; do
    word=${line%%[= ]*}
    name=${line#* } && name=${name%%=*}
    case $name in *[!A-Za-z0-9_]* | [0-9]* | '') [ "$word" = print ] || continue ;; esac
    case $line in
      'export '*=*) export "$name=${line#*=}" ;;
      'unset '*) unset "$name" ;;
      'print '*) printf '%s\n' "${line#print }" ;;
    esac
  done <<END
$said
END
fi
[ -n "$epilog" ] || exec "$@"
trap : HUP INT TERM USR1 USR2
"$@"
code=$?
if timeout --foreground 5 true 2>/dev/null; then timeout --foreground -s KILL 5 "$epilog" </dev/null
else "$epilog" </dev/null; fi
ended=$?
if [ "$ended" -gt 128 ]; then echo "srun: error: TaskEpilog failed status=$((ended - 128))" >&2
elif [ "$ended" != 0 ]; then echo "srun: error: TaskEpilog failed status=$((ended * 256))" >&2; fi
exit "$code")sh";

}  // namespace

bool IsInsideJob(const std::vector<std::string>& environment) {
  if (!EnvironmentValue(environment, "DIVVY_JOB_ID").empty()) return true;
  return !EnvironmentValue(environment, "SLURM_JOB_ID").empty() &&
         EnvironmentValue(environment, "SLURM_CLUSTER_NAME") == "divvy";
}

Result<StepOptions> ReadStepOptions(JobSpec& spec, const JobAround& around, bool is_spread,
                                    std::vector<std::string> task_hosts) {
  const auto given = [&](std::string_view option) { return options::Value(spec, option).has_value(); };
  const auto inherit = [&](std::string_view option, std::string_view variable) {
    const std::string value = EnvironmentValue(around.environment, variable);
    if (!value.empty()) options::Keep(spec, option, value);
  };
  const bool says_gpus = given("gres") || given("gpus") || given("gpus-per-node") || given("gpus-per-task") ||
                         given("tres-per-task") || given("ntasks-per-gpu") || given("gpus-per-socket");
  if (!given("ntasks") && !given("ntasks-per-node") && !given("ntasks-per-gpu")) {
    inherit("ntasks", "SLURM_NTASKS");
    if (!given("ntasks")) inherit("ntasks", "SLURM_NPROCS");
  }
  if (!task_hosts.empty()) {
    if (!given("ntasks")) options::Keep(spec, "ntasks", std::to_string(task_hosts.size()));
    dialect::CutTaskHosts(spec, task_hosts);  // Now with the job's number of tasks.
    options::Forget(spec, "nodelist");
  }
  if (!says_gpus) {
    inherit("gpus-per-task", "SLURM_GPUS_PER_TASK");
    if (!given("gpus-per-task")) inherit("tres-per-task", "SLURM_TRES_PER_TASK");
  }
  if (!given("gpu-bind")) inherit("gpu-bind", "SLURM_GPU_BIND");
  // Newer releases of Slurm leave SLURM_CPUS_PER_TASK to the job and use a separate name for srun.
  if (!given("cpus-per-task")) inherit("cpus-per-task", "SRUN_CPUS_PER_TASK");
  if (!given("cpus-per-task")) inherit("cpus-per-task", "SLURM_CPUS_PER_TASK");
  StepOptions ask;
  if (is_spread) {
    if (task_hosts.empty() && !given("nodes") && !given("nodelist")) inherit("nodes", "SLURM_NNODES");
    if (!given("distribution")) inherit("distribution", "SLURM_DISTRIBUTION");
    ReadLayoutRequest(spec, ask);
  }
  DIVVY_CHECK(ReadMachines(spec, ask));
  ask.task_hosts = std::move(task_hosts);
  DIVVY_CHECK(dialect::FinishSlurm(spec));
  if (const Status place = dialect::CheckSlurmPlace(spec); !place) {
    return InvalidArgument("Unable to create step for job " + around.id +
                           ": More nodes requested than the job has: " + place.error().message);
  }

  ask.deal.tasks = std::max(spec.request.tasks, 1);
  if (says_gpus) ask.own_gpus = spec.request.gpus;
  if (const auto per_task = options::Value(spec, "gpus-per-task")) {
    DIVVY_TRY(const options::GpuOption gpus, options::ParseGpuCount(*per_task));
    ask.deal.gpus_per_task = static_cast<int>(gpus.count);
  } else if (const auto tres = options::Value(spec, "tres-per-task")) {
    DIVVY_TRY(const options::TresOption parsed, options::ParseTres(*tres));
    if (parsed.gpus) ask.deal.gpus_per_task = static_cast<int>(parsed.gpus->count);
  }
  ask.deal.tasks_per_gpu = static_cast<int>(options::Number(spec, "ntasks-per-gpu").value_or(0));
  ask.deal.cpus_per_task = static_cast<int>(options::Number(spec, "cpus-per-task").value_or(0));
  ask.deal.gpu_bind = options::Value(spec, "gpu-bind").value_or(options::Value(spec, "tres-bind").value_or(""));
  DIVVY_TRY(const auto container, dialect::ContainerOf(spec, false));
  if (container) ask.container = FormatContainerPlan(*container);
  ask.export_list = options::Value(spec, "export").value_or("");
  if (is_spread) {
    // Slurm's counts per node were parsed as counts of a single node, because the options about nodes are removed.
    if (given("gres") || given("gpus-per-node")) ask.own_gpus_on_machine = std::exchange(ask.own_gpus, std::nullopt);
    return ask;
  }
  if (ask.own_gpus && *ask.own_gpus > static_cast<int>(around.gpus.size())) {
    return InvalidArgument("Unable to create step for job " + around.id + ": it asks for " +
                           Plural(*ask.own_gpus, "GPU") + ", the job has " + std::to_string(around.gpus.size()));
  }
  return ask;
}

std::vector<std::string> WithHooks(const TaskHooks& hooks, std::vector<std::string> command) {
  if (!hooks.any()) return command;
  std::vector<std::string> all = {"/bin/sh", "-c", std::string(kHooked), "srun", hooks.prolog, hooks.epilog};
  all.insert(all.end(), std::make_move_iterator(command.begin()), std::make_move_iterator(command.end()));
  return all;
}

std::string ProgramOf(const std::string& command) { return command.substr(command.find_last_of('/') + 1); }

Result<std::vector<std::vector<std::string>>> ReadMultiProg(std::string_view text, int tasks) {
  std::vector<std::vector<std::string>> commands(static_cast<std::size_t>(tasks));
  // A backslash at the end of a line continues it on the next one.
  std::string joined(text);
  for (auto at = joined.find("\\\n"); at != std::string::npos; at = joined.find("\\\n", at)) joined.erase(at, 2);
  int number = 0;
  for (const std::string_view raw : Split(joined, '\n')) {
    ++number;
    const std::string where = "line " + std::to_string(number) + ": ";
    const std::string_view line = Trim(raw);
    if (line.empty() || line.starts_with('#')) continue;
    const auto words = ShellSplit(line);
    if (!words || words->size() < 2) return InvalidArgument(where + "write RANKS COMMAND..., such as 0-3 ./solve %t");
    IndexRanges ranks;
    if (words->front() == "*") {
      for (std::size_t rank = 0; rank < commands.size(); ++rank) {
        if (commands[rank].empty()) ranks.Insert(static_cast<std::uint32_t>(rank));
      }
    } else {
      auto parsed = IndexRanges::Parse(words->front(), "ranks");
      if (!parsed) return InvalidArgument(where + parsed.error().message);
      ranks = *std::move(parsed);
    }
    std::size_t place = 0;
    for (const auto& range : ranks.ranges()) {
      for (std::uint32_t rank = range.first; rank <= range.last && rank < commands.size(); ++rank, ++place) {
        std::vector<std::string> command(words->begin() + 1, words->end());
        for (std::string& word : command) {
          for (const auto& [mark, value] : {std::pair("%t", std::size_t{rank}), std::pair("%o", place)}) {
            for (auto at = word.find(mark); at != std::string::npos; at = word.find(mark, at))
              word.replace(at, 2, std::to_string(value));
          }
        }
        commands[rank] = std::move(command);
      }
    }
  }
  for (std::size_t rank = 0; rank < commands.size(); ++rank) {
    if (commands[rank].empty())
      return InvalidArgument("no line is for task " + std::to_string(rank) + "; add one, or *");
  }
  return commands;
}

}  // namespace divvy::cli::slurm
