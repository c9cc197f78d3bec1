// srun. Inside a job of divvy it starts a step through the job's step process, without the daemon. Outside it submits a
// job on the caller's terminal. If the job has more than one task, it runs this srun again inside itself.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/shims/slurm/slurm_step_plan.h"
#include "cli/shims/slurm/slurm_submit.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_nodes.h"
#include "cli/shims/slurm_look/slurm_refusals.h"
#include "cli/steps/steps.h"
#include "dialect/options/components.h"
#include "dialect/options/option_values.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm.h"
#include "dialect/slurm/slurm_noted_options.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

struct SrunFlags {
  JobSpec spec;
  std::vector<std::string> command;
  std::string output;
  std::string error;
  std::string input;
  std::string open_mode;
  std::string jobid;
  std::string cpu_bind;
  std::string wait;
  std::string het_group;
  std::string relative;
  std::string mpi;
  std::string task_prolog;
  std::string task_epilog;
  JobSpec noted;  // Collects only notes: about srun's own options without effect here, and about options of plugins.
  bool is_noted = false;  // The notes were printed already.
  bool has_labels = false;
  bool has_pty = false;
  bool is_multi_prog = false;
  bool overlaps = false;
  bool is_exact = false;
  bool kills_on_bad_exit = false;
  std::optional<Duration> immediate;  // Fails instead of waiting longer than this.
  bool is_quiet = false;
  bool preserves_counts = false;
  bool quits_on_interrupt = false;
};

/// Adds srun's own options that have no effect here, each with a reason if users may miss something.
void AddUnused(std::vector<dialect::Option>& options, SrunFlags& wish) {
  struct Unused {
    std::string_view name;
    char letter;
    Takes takes;
    std::string_view why;
  };
  constexpr std::string_view kInPlace = "the program is started where it is; put it on a path that every node can read";
  constexpr std::string_view kInScript = "not run; call it in the script instead, around srun";
  static constexpr auto kUnused = std::to_array<Unused>({
      {"unbuffered", 'u', Takes::kNothing, ""},
      {"threads", 'T', Takes::kValue, ""},
      {"treewidth", 0, Takes::kValue, ""},
      {"slurmd-debug", 0, Takes::kValue, ""},
      {"msg-timeout", 0, Takes::kValue, ""},
      {"interactive", 0, Takes::kNothing, ""},
      {"whole", 0, Takes::kNothing, ""},
      {"noted", 0, Takes::kNothing, ""},
      {"accel-bind", 0, Takes::kValue, "--gpu-bind says which GPUs a task sees"},
      {"bcast", 0, Takes::kOptionalValue, kInPlace},
      {"bcast-exclude", 0, Takes::kValue, kInPlace},
      {"compress", 0, Takes::kOptionalValue, kInPlace},
      {"send-libs", 0, Takes::kOptionalValue, kInPlace},
      {"prolog", 0, Takes::kValue, kInScript},
      {"epilog", 0, Takes::kValue, kInScript},
      {"no-allocate", 'Z', Takes::kNothing, "a task is started with what its job has been given, as always"},
  });
  for (const Unused& one : kUnused) {
    dialect::Option option = Ignored(one.name, one.letter, one.takes);
    option.apply = [&wish, &one](std::string_view value) -> Status {
      if (one.name == "noted") wish.is_noted = true;
      if (one.why.empty() || value == "none") return {};
      const std::string written = std::string(one.name) + (value.empty() ? "" : "=" + std::string(value));
      dialect::AddNote(wish.noted, "--" + written + ": " + std::string(one.why));
      return {};
    };
    options.push_back(std::move(option));
  }
  dialect::Option async = Ignored("async", 0, Takes::kNothing);
  async.apply = [](std::string_view) -> Status {
    return InvalidArgument("srun waits for its step; write 'srun ... &', and 'wait' for the end");
  };
  options.push_back(std::move(async));
}

std::vector<dialect::Option> SrunTable(SrunFlags& wish, const dialect::ParseContext& around) {
  const auto optional = [](std::string_view name, char letter, std::string_view help, bool& flag) {
    dialect::Option option{.name = name,
                           .letter = letter,
                           .takes = Takes::kOptionalValue,
                           .value_name = "1",
                           .help = help,
                           .apply = [&flag](std::string_view value) -> Status {
                             flag = value != "0";
                             return {};
                           },
                           .aliases = {}};
    return option;
  };
  // srun gives some of sbatch's names and letters other meanings.
  std::vector<dialect::Option> options =
      Without(dialect::SbatchOptions(wish.spec, around),
              {"wait", "wrap", "parsable", "output", "error", "input", "open-mode", "quiet"});
  std::vector<dialect::Option> own = {
      Text("output", 'o', "FILE", "Output: a file (%t rank, %j job, %s step), none, or a rank", wish.output),
      Text("error", 'e', "FILE", "Errors (default: the same as the output)", wish.error),
      Text("input", 'i', "FILE", "Input: a file, none, or a rank; task 0 has the terminal", wish.input),
      Text("open-mode", 0, "append|truncate", "Append to files, or truncate them", wish.open_mode),
      Text("jobid", 0, "ID", "Job to run in", wish.jobid),
      Text("mpi", 0, "KIND", "list prints the supported MPI types (none)", wish.mpi),
      Text("task-prolog", 0, "PROGRAM",
           "Program to run before each task; its output lines \"export NAME=VALUE\" set the task's variables",
           wish.task_prolog),
      Text("task-epilog", 0, "PROGRAM", "Program to run after each task", wish.task_epilog),
      Flag("label", 'l', "Prefix each line with its task's number", wish.has_labels),
      Flag("pty", 0, "Allocate a terminal for task 0", wish.has_pty),
      Flag("multi-prog", 0, "Read a command for each task from a file", wish.is_multi_prog),
      Flag("overlap", 0, "Share GPUs with other steps", wish.overlaps),
      Flag("exact", 0, "Do not share cores (with -c) and GPUs with other steps", wish.is_exact),
      Text("cpu-bind", 0, "HOW", "Cores of each task: none, cores, rank, map_cpu, mask_cpu", wish.cpu_bind),
      Text("het-group", 0, "LIST", "Components of a heterogeneous job to run in (default: the first)", wish.het_group),
      Text("relative", 'r', "N", "First node of the job to use, counted from 0", wish.relative),
      Text("wait", 'W', "SECONDS", "Time to wait for other tasks after the first has ended; 0 waits indefinitely",
           wish.wait),
      Flag("quiet", 'Q', "Do not report failed tasks", wish.is_quiet),
      Flag("quit-on-interrupt", 0, "The first Ctrl-C goes to the tasks", wish.quits_on_interrupt),
      Flag("disable-status", 'X', "The same", wish.quits_on_interrupt),
      Flag("preserve-env", 'E', "Leave SLURM_NNODES and SLURM_NTASKS as they are", wish.preserves_counts),
      Flag("external-launcher", 0, "A step for another launcher, such as mpirun: shares all GPUs", wish.overlaps),
      optional("kill-on-bad-exit", 'K', "End all tasks if one fails", wish.kills_on_bad_exit),
      Immediate(wish.immediate),
  };
  AddUnused(own, wish);
  for (dialect::Option& option : own) {
    if (option.name == "het-group") option.aliases = {"pack-group"};  // Its name up to Slurm 19.05.
    options.push_back(std::move(option));
  }
  return options;
}

/// Returns the caller's context for parsing the options of an srun inside a job, from the call that the step process
/// received.
dialect::ParseContext ParseContextOf(const StepCall& call, const StepIdentity& identity) {
  dialect::ParseContext around;
  around.environment = call.environment;
  around.directory = call.directory;
  around.hostname = identity.hostname;
  around.home = EnvironmentValue(call.environment, "HOME");
  around.user = identity.user;
  return around;
}

Status ReadCommands(const SrunFlags& wish, const StepCall& call, StepOptions& ask) {
  ask.commands = {wish.command};
  if (!wish.is_multi_prog) return {};
  const std::string& path = wish.command.front();
  const std::string full = path.front() == '/' ? path : call.directory + "/" + path;
  DIVVY_TRY(const std::string text, CallerParseContext().read_file(full));
  auto commands = ReadMultiProg(text, ask.deal.tasks);
  if (!commands) return InvalidArgument("Configuration file " + path + " invalid: " + commands.error().message);
  ask.commands = *std::move(commands);
  return {};
}

/// True if the nodes of the tasks may be listed (dialect::TaskHosts).
bool MayListHosts(const SrunFlags& wish, const std::vector<std::string>& environment) {
  return dialect::slurm::Value(wish.spec, "distribution").value_or("").starts_with("arbitrary") ||
         !EnvironmentValue(environment, "SLURM_HOSTFILE").empty();
}

/// The node of each task, for a step that is planned here. Relative paths start at the caller's directory.
Result<std::vector<std::string>> TaskHostsOf(const SrunFlags& wish, const StepCall& call, const JobAround& job) {
  if (call.part || !MayListHosts(wish, job.environment)) return std::vector<std::string>();
  dialect::ParseContext around;
  around.environment = job.environment;
  around.read_file = [&call](const std::string& path) {
    return CallerParseContext().read_file(path.front() == '/' ? path : call.directory + "/" + path);
  };
  return dialect::TaskHosts(wish.spec, around, true);
}

/// --gpu-bind=verbose: each task prints the GPUs that it sees.
constexpr std::string_view kShowsGpus = "echo \"gpu-bind: usable_gres=$CUDA_VISIBLE_DEVICES\" >&2; exec \"$@\"";

/// --cpu-bind=verbose: each task prints the cores on which it may run, as srun does.
constexpr std::string_view kShowsCores =
    "mask=$(sed -n 's/^Cpus_allowed://p' /proc/self/status | tr -d ', \\t' | sed 's/^0*//'); "
    "echo \"cpu-bind=MASK - $SLURMD_NODENAME, task $SLURM_PROCID $SLURM_LOCALID [$$]: mask 0x$mask set\" >&2; "
    "exec \"$@\"";

/// -l with a file for each task or node, which the tasks write themselves: a filter in front of the file labels the
/// lines. $1 is 1 if errors go to the same file. The shells survive signals to the task, and return its exit code.
constexpr std::string_view kLabelsFile = R"sh(merges=$1
shift
trap : HUP INT TERM USR1 USR2
last=$((${SLURM_STEP_NUM_TASKS:-1} - 1))
label=$(printf '%*s: ' ${#last} "$SLURM_PROCID")
run() {
  trap : HUP INT TERM USR1 USR2
  if [ "$merges" = 1 ]; then "$@" 2>&1 3>&- 4>&-; else "$@" 3>&- 4>&-; fi
  echo $? >&3
}
{ code=$({ run "$@" | (trap '' HUP INT TERM USR1 USR2; exec sed -u "s/^/$label/" >&4); } 3>&1); } 4>&1
exit "${code:-1}")sh";

/// Removes "verbose" and "v" from the list of --cpu-bind. Returns true if there was one.
bool TakeVerbose(std::string& bind) {
  std::vector<std::string> kept;
  bool is_verbose = false;
  for (const std::string_view item : Split(bind, ',')) {
    if (item == "verbose" || item == "v") is_verbose = true;
    else kept.emplace_back(item);
  }
  bind = Join(kept, ",");
  return is_verbose;
}

Result<StepOptions> AskOf(SrunFlags& wish, const StepCall& call, const JobAround& job, bool is_spread) {
  const auto value = [&](std::string_view name) { return EnvironmentValue(job.environment, name); };
  if (!wish.jobid.empty() && wish.jobid != job.id) {
    return InvalidArgument("this is job " + job.id + "; a step of job " + wish.jobid +
                           " must be started inside that job");
  }
  // The job's variables about cores describe the job's own tasks. Inheriting them would make steps with separate GPUs
  // wait for each other.
  const bool says_cores = dialect::slurm::Value(wish.spec, "cpus-per-task").has_value();
  const std::string name = wish.spec.name;  // Before the job's own defaults fill it in.
  DIVVY_TRY(std::vector<std::string> hosts, TaskHostsOf(wish, call, job));
  DIVVY_TRY(StepOptions ask, ReadStepOptions(wish.spec, job, is_spread, std::move(hosts)));
  ask.name = name;
  const auto first = wish.relative.empty() ? 0 : ParseInteger(wish.relative);
  if (!first || *first < 0)
    return InvalidArgument("--relative=" + wish.relative + ": write the number of a node of the job, starting at 0");
  ask.first_machine = static_cast<std::size_t>(*first);
  DIVVY_CHECK(ReadCommands(wish, call, ask));
  const TaskHooks hooks = {wish.task_prolog.empty() ? value("SLURM_TASK_PROLOG") : wish.task_prolog,
                           wish.task_epilog.empty() ? value("SLURM_TASK_EPILOG") : wish.task_epilog};
  const bool shows_gpus = ask.deal.gpu_bind.starts_with("verbose") || ask.deal.gpu_bind.starts_with("v,");
  // An outer step's variables about its tasks do not apply to this one.
  const bool is_wish = value("SLURM_CPU_BIND_TYPE").empty();
  ask.deal.cpu_bind = wish.cpu_bind.empty() && is_wish ? value("SLURM_CPU_BIND") : wish.cpu_bind;
  const bool shows_cores = TakeVerbose(ask.deal.cpu_bind);
  const bool labels_file = (wish.has_labels || value("SLURM_LABELIO") == "1") && NamesMachineOrTask(wish.output);
  if (ask.name.empty() && (hooks.any() || shows_gpus || shows_cores || labels_file))
    ask.name = ProgramOf(wish.command.front());
  for (std::vector<std::string>& command : ask.commands) command = WithHooks(hooks, std::move(command));
  for (std::vector<std::string>& command : ask.commands) {
    if (shows_gpus) command.insert(command.begin(), {"/bin/sh", "-c", std::string(kShowsGpus), "srun"});
    if (shows_cores) command.insert(command.begin(), {"/bin/sh", "-c", std::string(kShowsCores), "srun"});
    if (labels_file)
      command.insert(command.begin(),
                     {"/bin/sh", "-c", std::string(kLabelsFile), "srun", wish.error.empty() ? "1" : "2"});
  }
  ask.overlaps = wish.overlaps || value("SLURM_OVERLAP") == "1";
  // Reserve cores only if the step asks for exclusive cores and gives their number.
  const bool is_exact = wish.is_exact || dialect::slurm::Value(wish.spec, "exclusive").has_value();
  ask.counts_cores = is_exact && says_cores;
  ask.is_immediate = wish.immediate.has_value();
  ask.is_verbose = dialect::slurm::Number(wish.spec, "client.verbose").value_or(0) > 0;
  ask.directory = wish.spec.directory;
  ask.output = wish.output;
  ask.error = wish.error;
  ask.input = wish.input;
  ask.appends = wish.open_mode.starts_with('a');
  ask.has_labels = wish.has_labels || value("SLURM_LABELIO") == "1";
  ask.has_terminal = wish.has_pty;
  ask.kills_on_bad_exit = wish.kills_on_bad_exit || value("SLURM_KILL_BAD_EXIT") == "1";
  ask.is_quiet = wish.is_quiet;
  ask.preserves_counts = wish.preserves_counts;
  ask.quits_on_interrupt = wish.quits_on_interrupt;
  ask.time_limit = wish.spec.time_limit;
  const std::string wait = wish.wait.empty() ? value("SLURM_WAIT") : wish.wait;
  ask.wait = std::chrono::seconds(std::clamp<std::int64_t>(ParseInteger(wait).value_or(0), 0, 1'000'000));
  return ask;
}

/// True if a single plain process on the caller's streams is not enough.
bool NeedsStepRunner(const SrunFlags& wish) {
  const auto given = [&](std::string_view option) { return dialect::slurm::Value(wish.spec, option).has_value(); };
  return wish.spec.request.tasks > 1 || wish.spec.request.is_heterogeneous() || wish.has_labels || wish.is_multi_prog ||
         !wish.output.empty() || !wish.error.empty() || !wish.input.empty() || !wish.task_prolog.empty() ||
         !wish.task_epilog.empty() || given("gpu-bind") || given("tres-bind") || !wish.cpu_bind.empty();
}

constexpr std::string_view kNoCommand = "No command given to execute.";

Status ReadWords(SrunFlags& wish, const std::vector<std::string>& words, const dialect::ParseContext& around) {
  DIVVY_TRY(dialect::Parsed parsed,
            dialect::ReadSlurmWords(SrunTable(wish, around), words, around, wish.spec, &wish.noted));
  if (wish.mpi == "list") return {};
  wish.command = std::move(parsed.positional);
  wish.command.insert(wish.command.end(), parsed.after_dashes.begin(), parsed.after_dashes.end());
  if (wish.command.empty()) return InvalidArgument(std::string(kNoCommand));
  return {};
}

/// Splits the words at ":".
std::vector<std::vector<std::string>> SplitAtColons(const std::vector<std::string>& words) {
  std::vector<std::vector<std::string>> parts(1);
  for (const std::string& word : words) {
    if (word == ":") parts.emplace_back();
    else parts.back().push_back(word);
  }
  return parts;
}

/// As in Slurm, a component without a command runs that of the next component: "-n1 : -n2 ./train".
std::vector<std::string> WithCommands(const std::vector<std::string>& words, const dialect::ParseContext& around) {
  std::vector<std::vector<std::string>> sections = SplitAtColons(words);
  if (sections.size() < 2) return words;
  std::vector<std::string> next;
  for (auto section = sections.rbegin(); section != sections.rend(); ++section) {
    SrunFlags its;
    const Status read = ReadWords(its, *section, around);
    if (!its.command.empty()) next = std::move(its.command);
    else if (!read && read.error().message == kNoCommand && !next.empty()) {
      if (section->empty() || section->back() != "--") section->emplace_back("--");
      section->insert(section->end(), next.begin(), next.end());
    }
  }
  std::vector<std::string> all = std::move(sections.front());
  for (std::size_t i = 1; i < sections.size(); ++i) {
    all.emplace_back(":");
    all.insert(all.end(), sections[i].begin(), sections[i].end());
  }
  return all;
}

/// Where the command begins in `words`, which were read into `wish`; with a "--" before it.
std::vector<std::string>::const_iterator CommandIn(const std::vector<std::string>& words, const SrunFlags& wish) {
  auto command = words.end() - static_cast<std::ptrdiff_t>(wish.command.size());
  if (command != words.begin() && *(command - 1) == "--") --command;
  return command;
}

/// Refuses a list of hosts that would be too long for one word of a command line (128 KiB).
Status CheckListLength(const std::vector<std::string>& hosts) {
  constexpr std::size_t kMostListBytes = 100 << 10;
  const std::size_t length = dialect::FoldHostList(hosts).size();
  if (length <= kMostListBytes) return {};
  return InvalidArgument("the list of the tasks' hosts has " + std::to_string(length) + " bytes, at most " +
                         std::to_string(kMostListBytes) +
                         " are possible here; start fewer tasks, or start them from a script inside the job, which "
                         "reads SLURM_HOSTFILE itself");
}

/// The words with which a job starts its own step. Options about nodes are cleared, because the job has its nodes by
/// then. A longer --nodelist may contain nodes that the job did not get. The time limit is that of the job alone.
/// `task_hosts`: the node of each task; empty: any.
std::vector<std::string> StepWords(const SrunFlags& wish, const std::vector<std::string>& words,
                                   const std::vector<std::string>& task_hosts, const dialect::ParseContext& around) {
  const bool is_one = !wish.spec.request.is_heterogeneous();
  const bool says_where = dialect::slurm::Value(wish.spec, "nodelist").has_value() || !wish.relative.empty();
  std::vector<std::string> all;
  if (!wish.noted.notes.empty()) all.emplace_back("--noted");
  bool is_first = true;
  for (const std::vector<std::string>& section : is_one ? std::vector(1, words) : SplitAtColons(words)) {
    if (!std::exchange(is_first, false)) all.emplace_back(":");
    SrunFlags its;
    static_cast<void>(ReadWords(its, section, around));  // They were read before.
    const auto command = CommandIn(section, its);
    all.insert(all.end(), section.begin(), command);
    if (its.spec.time_limit > Duration(0)) all.emplace_back("--time=0");
    if (says_where && is_one)
      all.insert(all.end(), {"--nodelist=" + dialect::FoldHostList(task_hosts), "--relative=0"});
    if (!task_hosts.empty() && is_one) all.emplace_back("--distribution=arbitrary");
    all.insert(all.end(), command, section.end());
  }
  return all;
}

/// In a job with one component, --het-group must name that component.
Status CheckOnlyGroup(const SrunFlags& wish) {
  if (wish.het_group.empty()) return {};
  const auto list = ReadComponentList(wish.het_group, 1);
  if (list) return {};
  return InvalidArgument("--het-group=" + wish.het_group + ": " + list.error().message + "; omit --het-group");
}

/// As in Slurm, --exclusive with --cpus-per-task alone starts as many tasks as the CPUs of the nodes allow.
Status FillExclusive(JobSpec& spec) {
  const auto given = [&](std::string_view option) { return dialect::slurm::Value(spec, option).has_value(); };
  const std::int64_t each = dialect::slurm::Number(spec, "cpus-per-task").value_or(0);
  if (!given("exclusive") || each < 1 || spec.request.is_heterogeneous()) return {};
  for (const std::string_view option :
       {"ntasks", "ntasks-per-node", "ntasks-per-gpu", "gpus-per-task", "tres-per-task"}) {
    if (given(option)) return {};
  }
  DIVVY_TRY(const std::vector<NodeRow> nodes, FetchNodes());
  std::int64_t cpus = 0;  // The smallest node has these; the job may get any node.
  for (const NodeRow& row : nodes) {
    if (row.scene.cpus > 0) cpus = cpus == 0 ? row.scene.cpus : std::min<std::int64_t>(cpus, row.scene.cpus);
  }
  if (cpus / each < 2) return {};
  dialect::slurm::Keep(spec, "ntasks", std::to_string(cpus / each * spec.request.nodes));
  return dialect::FinishSlurm(spec);
}

int RunJob(SrunFlags& wish, const std::vector<std::string>& words, const dialect::ParseContext& around) {
  JobSpec& spec = wish.spec;
  spec.dialect = Dialect::kSlurm;
  spec.is_foreground = true;
  spec.wants_pty = wish.has_pty && ::isatty(STDIN_FILENO) == 1;
  dialect::slurm::KeepOrigin(spec, around);
  const bool is_test = TakeClientFlag(spec, "test-only");
  const std::string refused = is_test ? "allocation failure: " : "Unable to allocate resources: ";
  const auto task_hosts = dialect::ApplyTaskHosts(around, true, spec);
  Status finished = task_hosts ? CheckListLength(*task_hosts) : Status(task_hosts.error());
  if (finished) finished = dialect::FinishSlurm(spec);
  if (finished) finished = FillExclusive(spec);
  if (!finished) return FailAs("srun", InSlurmsWords(finished.error().message));
  if (const Status place = dialect::CheckSlurmPlace(spec); !place)
    return FailAs("srun", refused + InSlurmsWords(place.error().message));
  if (const Status several = CheckSeveral(spec); !several)
    return FailAs("srun", refused + InSlurmsWords(several.error().message));
  if (spec.array) return FailAs("srun", "--array is sbatch's; srun runs one job");
  if (const Status group = spec.request.is_heterogeneous() ? Status() : CheckOnlyGroup(wish); !group)
    return FailAs("srun", group.error().message);
  if (spec.request.is_heterogeneous() && wish.is_multi_prog)
    return FailAs("srun", "--multi-prog is not for a heterogeneous job; write ./a : ./b");
  const int verbosity = TakeVerbosity(spec, "SLURM_DEBUG");
  std::string bind = wish.cpu_bind;
  TakeVerbose(bind);
  if (!bind.empty() && dialect::slurm::Value(spec, "hint")) dialect::AddNote(spec, dialect::slurm::kHintExcludes);
  for (const std::string& note : wish.noted.notes) dialect::AddNote(spec, note);
  if (wish.is_quiet) spec.notes.clear();
  if (spec.name.empty()) spec.name = ProgramOf(wish.command.front());
  if (spec.directory.empty()) spec.directory = around.directory;
  const bool needs_steps = NeedsStepRunner(wish);
  dialect::slurm::Keep(spec, "door", needs_steps ? "srun-steps" : "srun");
  spec.command = needs_steps ? SelfWords("srun", StepWords(wish, words, *task_hosts, around)) : wish.command;
  if (const Status complete = Complete(spec); !complete) return FailAs("srun", complete.error());
  if (is_test) return TestOnly("srun", spec);
  Voice voice = SlurmVoice("srun", "Unable to allocate resources: ", spec, verbosity);
  voice.asks_interrupts = !needs_steps && !wish.quits_on_interrupt;  // With steps the inner srun handles this.
  // Also with steps: the inner srun gets the signal from outside its session, and only passes it on.
  voice.quits_on_interrupt = wish.quits_on_interrupt;
  voice.most_wait = wish.immediate;
  voice.aborted = "Job step aborted";
  if (verbosity > 0 && !needs_steps) {
    voice.on_begun = [allocated = voice.on_begun](const std::string& id, bool was_queued) {
      std::fprintf(stderr, "srun: launching StepId=%s.0 on host %s, 1 tasks\n", id.c_str(), Hostname().c_str());
      allocated(id, was_queued);
    };
  }
  return RunForeground(std::move(spec), voice);
}

/// The line with which srun reports the error.
std::string Complaint(const Error& error) {
  const bool is_fatal = error.message.starts_with(kNoCommand);
  return std::string(is_fatal ? "srun: fatal: " : "srun: error: ") + InSlurmsWords(error.message);
}

/// Refuses several components in a job that is not heterogeneous. A ":" at the end belongs to the command (sh -c :).
Status CheckIsOfOne(const SrunFlags& wish, const std::string& job) {
  DIVVY_CHECK(CheckOnlyGroup(wish));
  const auto colon = std::ranges::find(wish.command, ":");
  if (colon == wish.command.end() || colon + 1 == wish.command.end()) return {};
  return InvalidArgument("job " + job + " has only one component, but ':' separates the commands of several; start " +
                         *(colon + 1) + " with a separate srun, or quote ':' together with its argument");
}

/// One file cannot list the hosts of several components.
void DropHostFile(std::vector<std::string>& environment) {
  std::erase_if(environment, [](const std::string& entry) { return entry.starts_with("SLURM_HOSTFILE="); });
}

/// In a heterogeneous job, each section of words applies to the components that --het-group names. By default the first
/// section is for the first component, the second for the second, and so on.
Result<StepOptions> AskOfParts(const StepCall& call, const std::vector<std::string>& words, const JobAround& job,
                               const StepIdentity& identity) {
  StepOptions whole;
  std::vector<bool> is_taken(identity.gang->components());
  const std::vector<std::vector<std::string>> stretches = SplitAtColons(words);
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    SrunFlags wish;
    DIVVY_CHECK(ReadWords(wish, stretches[i], ParseContextOf(call, identity)));
    if (wish.is_multi_prog) return InvalidArgument("--multi-prog is not for a heterogeneous job; write ./a : ./b");
    const std::string group = wish.het_group.empty() ? std::to_string(i) : wish.het_group;
    DIVVY_TRY(const std::vector<std::size_t> components, ReadComponentList(group, is_taken.size()));
    for (const std::size_t component : components) {
      if (is_taken[component])
        return InvalidArgument("two of the commands are for component " + std::to_string(component));
      is_taken[component] = true;
      SrunFlags its = wish;
      JobAround around = job;
      around.environment = EnvironmentOfComponent(std::move(around.environment), component);
      if (stretches.size() > 1 || components.size() > 1) DropHostFile(around.environment);
      DIVVY_TRY(StepOptions part, AskOf(its, call, around, true));
      part.component = component;
      if (whole.commands.empty()) whole = part;
      whole.parts.push_back(std::move(part));
    }
  }
  return whole;
}

}  // namespace

namespace slurm {
namespace {

std::string ShellLine(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + ShellQuote(word);
  return line;
}

/// Caches the options of the last step together with the result of parsing them. Scripts start many steps with equal
/// options in an equal environment. Parsing them again is most of a step's cost in its step process.
class LastAsk {
 public:
  std::optional<StepOptions> Find(const StepCall& call, const std::vector<std::string>& words) const {
    const bool is_same = words.size() > options_.size() && words[options_.size()].front() != '-' &&
                         std::equal(options_.begin(), options_.end(), words.begin()) &&
                         call.environment == environment_ && call.directory == directory_;
    if (!is_same || std::ranges::find(words, ":") != words.end()) return std::nullopt;
    StepOptions ask = ask_;
    ask.commands = {{words.begin() + static_cast<std::ptrdiff_t>(options_.size()), words.end()}};
    return ask;
  }
  /// Requires: the command is the last `command_words` of `words`, and no option affects how it is parsed.
  void Keep(const StepCall& call, const std::vector<std::string>& words, std::size_t command_words,
            const StepOptions& ask) {
    environment_ = call.environment;
    directory_ = call.directory;
    options_.assign(words.begin(), words.end() - static_cast<std::ptrdiff_t>(command_words));
    ask_ = ask;
  }

 private:
  std::vector<std::string> options_;
  std::vector<std::string> environment_;  // Empty: nothing is cached.
  std::string directory_;
  StepOptions ask_;
};

}  // namespace

Result<StepPlan> PlanSrun(const StepCall& call, const std::vector<std::string>& words,
                          const std::vector<std::vector<int>>& machine, const StepIdentity& identity) {
  static LastAsk last;
  const auto failed = [](const Error& error) { return InvalidArgument(Complaint(error)); };
  const bool has_empty_word = std::ranges::any_of(words, [](const std::string& word) { return word.empty(); });
  JobAround job = ReadJobAround(call.environment);
  if (identity.gang != nullptr && identity.gang->components() > 1) {
    auto ask = AskOfParts(call, words, job, identity);
    if (!ask) return failed(ask.error());
    return PlanStep(*std::move(ask), std::move(job), call, machine, identity);
  }
  if (!has_empty_word && !call.environment.empty()) {
    if (auto ask = last.Find(call, words)) return PlanStep(*std::move(ask), std::move(job), call, machine, identity);
  }
  SrunFlags wish;
  if (const Status read = ReadWords(wish, words, ParseContextOf(call, identity)); !read) return failed(read.error());
  if (const Status is_of_one = CheckIsOfOne(wish, job.id); !is_of_one) return failed(is_of_one.error());
  const bool may_list_hosts = MayListHosts(wish, call.environment);
  auto ask = AskOf(wish, call, job, identity.gang != nullptr);
  if (!ask) return failed(ask.error());
  const bool has_hooks = !wish.is_multi_prog && ask->commands.front() != wish.command;
  if (!wish.is_multi_prog && !has_hooks && !may_list_hosts) last.Keep(call, words, wish.command.size(), *ask);
  auto plan = PlanStep(*std::move(ask), std::move(job), call, machine, identity);
  // Lists show the requested command, not the shell around prolog and epilog.
  if (plan && has_hooks) plan->command = ShellLine(wish.command);
  return plan;
}

}  // namespace slurm

namespace {

/// Returns `words` preceded by the options that SLURM_STDOUTMODE and similar variables set.
std::vector<std::string> WithStreams(const std::vector<std::string>& words,
                                     const std::vector<std::string>& environment) {
  std::vector<std::string> all;
  for (const auto& [variable, option] :
       {std::pair("SLURM_STDOUTMODE", "--output="), std::pair("SLURM_STDERRMODE", "--error="),
        std::pair("SLURM_STDINMODE", "--input=")}) {
    const std::string value = EnvironmentValue(environment, variable);
    if (!value.empty()) all.push_back(option + value);
  }
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace

int SrunMain(const std::vector<std::string>& given) {
  const dialect::ParseContext around = CallerParseContext();
  SrunFlags wish;
  if (Greets("srun", "[OPTIONS] executable [ARGS...]", SrunTable(wish, around), given)) return 0;
  const std::vector<std::string> words = WithCommands(WithStreams(given, around.environment), around);
  const bool is_inside = IsInsideJob(around.environment);
  if (!is_inside) {
    if (const Status read = dialect::ApplyCommandEnvironment("SLURM_", around, wish.spec); !read)
      return FailAs("srun", read.error());
  }
  const std::vector<std::vector<std::string>> stretches = SplitAtColons(words);
  Status read = ReadWords(wish, is_inside ? words : stretches.front(), around);
  for (std::size_t i = 1; !is_inside && i < stretches.size(); ++i) {
    // A wrong option of a later component also hides the command that this one would run.
    if (!read && read.error().message != kNoCommand) break;
    SrunFlags component;
    const Status other = ReadWords(component, stretches[i], around);
    if (read || !other) read = other;
    if (read) read = dialect::TakeComponent(std::move(component.spec), i, wish.spec);
  }
  if (read && wish.mpi == "list") return std::printf("MPI plugin types are...\n\tnone\n") < 0 ? 1 : 0;
  if (read && is_inside && !wish.is_quiet && !wish.is_noted) {
    for (const std::string& note : wish.noted.notes) Note(note);
  }
  const bool is_elsewhere = !wish.jobid.empty() && wish.jobid != EnvironmentValue(around.environment, "DIVVY_JOB_ID");
  if (read && is_elsewhere) {
    std::vector<std::string> all = words;
    if (stretches.size() == 1) {
      // The file of hosts is on the caller's machine, and the step's own process does not get its variable.
      const auto hosts = dialect::TaskHosts(wish.spec, around, true);
      if (!hosts) return FailAs("srun", hosts.error());
      if (const Status length = CheckListLength(*hosts); !length) return FailAs("srun", length.error());
      if (!hosts->empty()) {
        all.insert(all.begin() + (CommandIn(words, wish) - words.begin()),
                   {"--distribution=arbitrary", "--nodelist=" + dialect::FoldHostList(*hosts)});
      }
    }
    return RunInStepOf(wish.jobid, "srun", all, wish.has_pty);
  }
  // The step process parses the words again and reports errors.
  if (is_inside) return RunInStep("srun", words);
  if (!read) {
    std::fprintf(stderr, "%s\n", Complaint(read.error()).c_str());
    return 1;
  }
  return RunJob(wish, words, around);
}

}  // namespace divvy::cli
