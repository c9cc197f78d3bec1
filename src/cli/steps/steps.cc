#include "cli/steps/steps.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/options/components.h"
#include "dialect/options/container_options.h"
#include "dialect/options/job_options.h"
#include "dialect/options/task_options.h"
#include "platform/os/numa_cores.h"
#include "platform/os/process_title.h"
#include "platform/os/runtime_paths.h"
#include "platform/os/spawn.h"
#include "platform/records/gang_files.h"
#include "platform/records/step_list_file.h"
#include "platform/steps/step_client.h"
#include "version.h"

extern char** environ;

namespace divvy::cli {
namespace {

constexpr auto kStartMost = std::chrono::seconds(10);

/// Returns when the step process listens, or has found that another one already does.
Status StartStepProcess(const std::string& file) {
  // The step process gets a process group of its own, because this process forwards Ctrl-C to it.
  const auto pid = Spawn(Spawn::Apart::kGroup).Start("/proc/self/exe", {"divvy", "internal-steps", file});
  if (!pid) return Internal("cannot start the job's step process: " + pid.error().message);
  int status = 0;
  while (::waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return FailedPrecondition("the job's step process cannot listen at " + StepSocketOf(file) +
                            "; check that the directory exists and belongs to you");
}

/// A caller outside the job (srun --jobid) has its own environment without the job's variables.
void MoveInside(StepCall& call, const std::vector<std::string>& job) {
  const std::string id = EnvironmentValue(job, "DIVVY_JOB_ID");
  if (EnvironmentValue(call.environment, "DIVVY_JOB_ID") != id) TakeJobsWords(call.environment, job);
}

/// Rejects options that a step cannot use. Ignoring them would change what the user meant.
Status CheckIsStep(const JobSpec& spec, const std::string& job, bool is_spread) {
  const JobSpec plain;
  if (spec.request.portion != plain.request.portion) {
    const std::string part = PortionText(spec.request.portion);
    return InvalidArgument("inside job " + job + ", divvy run starts a step, which uses whole GPUs of " +
                           "the job, not a GPU fraction" +
                           (spec.request.portion.any() ? ": write --gpus 1 instead of " + part : "") +
                           "; for a separate job with a GPU fraction, write divvy run --as-job");
  }
  JobSpec rest = spec;
  rest.command.clear();
  rest.request = plain.request;
  rest.directory.clear();
  rest.output.clear();
  rest.error.clear();
  rest.input.clear();
  rest.appends_output = false;
  rest.wants_pty = false;
  rest.is_foreground = false;
  rest.extra_environment.clear();
  rest.labels.clear();
  rest.name.clear();
  rest.notes.clear();
  Request request = spec.request;
  request.gpus = plain.request.gpus;
  request.short_nodes = plain.request.short_nodes;
  request.cpus = plain.request.cpus;
  request.tasks = plain.request.tasks;
  request.others.clear();
  if (is_spread) {
    request.nodes = plain.request.nodes;
    request.node_list.clear();
  }
  if (rest == plain && request == plain.request) return {};
  return InvalidArgument("inside job " + job +
                         ", divvy run starts a step, which does not accept all of these options; it accepts for "
                         "example --gpus, --cpus, --tasks, --gpus-per-task, --gpu-bind, --cpu-bind, "
                         "--no-kill, --label-output, --output, --error, --input, --open-mode, --chdir, --env" +
                         (is_spread ? ", --pty, --nodes and --nodelist" : " and --pty") +
                         "; for a separate job, write divvy run --as-job");
}

}  // namespace

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

void TakeJobsWords(std::vector<std::string>& environment, const std::vector<std::string>& job) {
  const auto is_jobs = [](std::string_view entry) {
    return entry.starts_with("DIVVY_") || entry.starts_with("SLURM_") || entry.starts_with("SLURMD_") ||
           entry.starts_with("CUDA_");
  };
  std::erase_if(environment, is_jobs);
  std::ranges::copy_if(job, std::back_inserter(environment), is_jobs);
}

std::string StepListOf(const std::vector<std::string>& environment) {
  if (std::string file = EnvironmentValue(environment, "DIVVY_STEPS"); !file.empty()) return file;
  const JobAround job = ReadJobAround(environment);
  const auto number = ParseInteger(job.id);
  if (!number || *number < 1) return "";
  return StepListPath(FindPlaces().runs, ::geteuid(), static_cast<std::uint64_t>(*number));
}

int RunInStep(std::string_view command, const std::vector<std::string>& words) {
  const std::string program = command == "srun" ? "srun" : "divvy";
  const std::string name(command);
  std::vector<const char*> all = {name.c_str()};
  for (const std::string& word : words) all.push_back(word.c_str());
  const std::string file = StepListOf(OwnEnvironment());
  const StepCaller caller{.socket = StepSocketOf(file),
                          .words = all,
                          .environment = environ,
                          .program = program,
                          .asks_interrupts = program == "srun"};
  const auto deadline = std::chrono::steady_clock::now() + kStartMost;
  for (;;) {
    if (const auto code = CallStep(caller)) return *code;
    const Status started = StartStepProcess(file);
    if (started && std::chrono::steady_clock::now() < deadline) {
      // Another step process is just starting or ending: it holds the lock but does not listen.
      if (const auto code = CallStep(caller)) return *code;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      continue;
    }
    const std::string why = started ? "the job's step process does not answer" : started.error().message;
    std::fprintf(stderr, "%s: error: %s\n", program.c_str(), why.c_str());
    return 1;
  }
}

namespace {

/// Checks a component behind ":". In a step it may only have options about its tasks; the number of components is fixed
/// by the job.
Status CheckIsPart(const JobSpec& component, std::size_t number) {
  const dialect::TaskOptions options = dialect::ReadTaskOptions(component);
  JobSpec rest = component;
  rest.labels.clear();
  const bool is_other = options.says_tasks || options.keeps_others || options.labels_output ||
                        !options.components.empty() || !(rest == JobSpec());
  if (!is_other) return {};
  return InvalidArgument("after ':' number " + std::to_string(number) +
                         ", only --gpus-per-task, --gpu-bind and --cpu-bind are allowed; give the other options with "
                         "the first component, or start a separate step with --components " +
                         std::to_string(number));
}

/// For a job with only one component.
Status CheckNamesFirst(const JobSpec& spec) {
  const std::string components = dialect::ReadTaskOptions(spec).components;
  if (components.empty()) return {};
  const auto list = ReadComponentList(components, 1);
  return list ? Status() : InvalidArgument("--components " + components + ": " + list.error().message);
}

/// In a heterogeneous job, --components says where the step runs; without ":" all components use the same options. A
/// single task without --components runs on the calling node, several tasks run in the first component.
Status TakeParts(const JobSpec& spec, const GangFile& gang, StepOptions& ask) {
  const dialect::TaskOptions options = dialect::ReadTaskOptions(spec);
  if (options.components.empty() && ask.layout.tasks == 1 && spec.request.others.empty()) return {};
  const std::string all = spec.request.others.empty() ? "0" : "all";
  DIVVY_TRY(const std::vector<std::size_t> components,
            ReadComponentList(options.components.empty() ? all : options.components, gang.components()));
  const std::size_t said = spec.request.components();
  if (said > 1 && said != components.size()) {
    return InvalidArgument("there are options for " + std::to_string(said) + " components, but the step runs in " +
                           std::to_string(components.size()));
  }
  if (!options.says_tasks) ask.layout.tasks = 0;
  ask.layout.node_indices.clear();
  for (std::size_t i = 0; i < components.size(); ++i) {
    StepOptions part = ask;
    part.parts.clear();
    part.component = components[i];
    if (said > 1 && i > 0) {
      JobSpec own;
      own.labels = spec.request.others[i - 1].labels;
      const dialect::TaskOptions its = dialect::ReadTaskOptions(own);
      part.deal.gpus_per_task = its.gpus_per_task;
      part.deal.gpu_bind = its.gpu_bind;
      part.deal.cpu_bind = its.cpu_bind;
    }
    part.own_gpus.reset();
    // With --gpus-per-task, this value only means that the component's tasks need exclusive GPUs. TakeShare then sets
    // how many, by the number of the part's tasks on the node.
    if (part.deal.gpus_per_task > 0) part.own_gpus = part.deal.gpus_per_task;
    else if (said == 1 && spec.request.gpus > 0) part.own_gpus = spec.request.gpus;
    ask.parts.push_back(std::move(part));
  }
  return {};
}

}  // namespace

Result<StepPlan> PlanRun(const StepCall& call, const std::vector<std::string>& words,
                         const std::vector<std::vector<int>>& machine, const StepIdentity& identity) {
  const auto failed = [](const Error& error) { return InvalidArgument("divvy: " + error.message); };
  JobAround job = ReadJobAround(call.environment);
  dialect::ParseContext around;
  around.environment = call.environment;
  around.directory = call.directory;
  around.hostname = identity.hostname;
  JobSpec spec;
  const bool has_components = identity.gang != nullptr && identity.gang->components() > 1;
  std::size_t number = 0;
  auto parsed = dialect::ReadComponents(
      dialect::JobOptions(spec, around), words, {true, true, false}, spec,
      [&](JobSpec& component) { return dialect::JobOptions(component, around); },
      [&](JobSpec& component) -> Status {
        if (has_components) return CheckIsPart(component, ++number);
        return InvalidArgument("job " + job.id + " has only one component; omit ':' and the options after it");
      });
  if (!parsed) return failed(parsed.error());
  std::vector<std::string> command = std::move(parsed->positional);
  command.insert(command.end(), parsed->after_dashes.begin(), parsed->after_dashes.end());
  if (command.empty()) return failed(InvalidArgument("nothing to run; write: divvy run [OPTIONS] COMMAND..."));
  if (const Status is_step = CheckIsStep(spec, job.id, identity.gang != nullptr); !is_step)
    return failed(is_step.error());

  if (!has_components) {
    if (const Status names_first = CheckNamesFirst(spec); !names_first) return failed(names_first.error());
  }

  const dialect::TaskOptions options = dialect::ReadTaskOptions(spec);
  StepOptions ask;
  ask.is_slurm = false;
  ask.deal.tasks = spec.request.tasks;
  ask.deal.gpus_per_task = options.gpus_per_task;
  ask.deal.gpu_bind = options.gpu_bind;
  ask.deal.cpu_bind = options.cpu_bind;
  if (options.gpus_per_task > 0) ask.own_gpus = options.gpus_per_task * spec.request.tasks;
  if (spec.request.gpus > 0) ask.own_gpus = spec.request.gpus;
  if (spec.request.cpus > 0) {
    ask.deal.cpus_per_task = (spec.request.cpus + spec.request.tasks - 1) / spec.request.tasks;
    ask.counts_cores = true;
  }
  ask.layout.tasks = std::max(spec.request.tasks, spec.request.nodes);
  ask.layout.nodes = spec.request.nodes > 1 ? spec.request.nodes : 0;
  ask.machines = spec.request.node_list;
  // A single task that names no node runs on the caller's node.
  if (identity.gang != nullptr && ask.layout.tasks == 1 && ask.machines.empty())
    ask.layout.node_indices = {identity.gang->own};
  if (identity.gang == nullptr && ask.own_gpus && *ask.own_gpus > static_cast<int>(job.gpus.size())) {
    return failed(InvalidArgument("the step requests " + Plural(*ask.own_gpus, "GPU") + ", but job " + job.id +
                                  " has " + std::to_string(job.gpus.size()) +
                                  "; to start a separate job, write divvy run --as-job"));
  }
  ask.commands = {std::move(command)};
  if (const Status checked = dialect::CheckContainer(spec); !checked) return failed(checked.error());
  if (spec.directory.empty()) spec.directory = call.directory;
  auto container = dialect::ContainerOf(spec, false);
  if (!container) return failed(container.error());
  if (*container) ask.container = FormatContainerPlan(**container);
  ask.name = spec.name;
  ask.directory = spec.directory;
  ask.output = spec.output;
  ask.error = spec.error;
  ask.input = spec.input;
  ask.appends = spec.appends_output;
  ask.has_labels = options.labels_output;
  ask.has_terminal = spec.wants_pty;
  ask.kills_on_bad_exit = !options.keeps_others;
  // For one task, the exit code is enough.
  ask.is_quiet = ask.layout.tasks == 1;
  for (const std::string& entry : spec.extra_environment) job.environment.push_back(entry);
  if (has_components) {
    if (const Status parted = TakeParts(spec, *identity.gang, ask); !parted) return failed(parted.error());
  }
  return PlanStep(std::move(ask), std::move(job), call, machine, identity);
}

Result<StepPlan> PlanRsh(const StepCall& call, const std::vector<std::string>& words,
                         const std::vector<std::vector<int>>& machine, const StepIdentity& identity) {
  std::size_t first = 0;
  // -n, -x and similar options only change how rsh and ssh behave. -l USER is ignored, because only one user is
  // possible.
  while (first < words.size() && words[first].starts_with('-')) first += words[first] == "-l" ? 2 : 1;
  if (first + 2 > words.size())
    return InvalidArgument("divvy: nothing to run; write: divvy internal-rsh HOST COMMAND...");
  JobAround job = ReadJobAround(call.environment);
  if (identity.gang == nullptr)
    return InvalidArgument("divvy: job " + job.id + " runs on one node; there is no node " + words[first] +
                           " to start on");
  StepOptions ask;
  ask.is_slurm = false;
  ask.has_names = false;
  ask.layout.tasks = 1;
  ask.machines = {words[first]};
  const std::vector<std::string> line(words.begin() + static_cast<std::ptrdiff_t>(first) + 1, words.end());
  ask.commands = {{"/bin/sh", "-c", Join(line, " ")}};
  ask.is_quiet = true;
  return PlanStep(std::move(ask), std::move(job), call, machine, identity);
}

namespace {

struct StepsWords {
  std::string file;
  std::string listen;  // Empty: accepts no other nodes, unless the job's files name a port.
  bool stays = false;
};
std::optional<StepsWords> ReadStepsWords(const std::vector<std::string>& words) {
  StepsWords read;
  for (const std::string& word : words) {
    if (word.starts_with("--listen=")) read.listen = word.substr(9);
    else if (word == "--stay") read.stays = true;
    else if (read.file.empty()) read.file = word;
    else return std::nullopt;
  }
  if (!read.file.starts_with('/')) return std::nullopt;
  return read;
}

/// For a job on several nodes, which has a key: sets the key, and the address at which this node's step process listens
/// for the step processes of the other nodes.
Status PrepareForMachines(const StepsWords& words, StepServerOptions& options) {
  auto key = ReadGangKey(words.file);
  if (!key && key.error().code == ErrorCode::kNotFound && words.listen.empty()) return {};
  if (!key) return key.error();
  options.key = *std::move(key);
  options.version = kVersion;
  options.listen = {"0.0.0.0", 0};
  // If an earlier step process died, the next step starts a new one at the same port, which the other nodes know.
  if (!words.listen.empty()) {
    const std::size_t colon = words.listen.rfind(':');
    const auto port = ParseInteger(colon == std::string::npos ? "" : std::string_view(words.listen).substr(colon + 1));
    if (!port || *port < 0 || *port > 65'535) return InvalidArgument("--listen takes HOST:PORT");
    std::string host = words.listen.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    options.listen = {host, static_cast<std::uint16_t>(*port)};
  } else if (const auto gang = ReadGangFile(words.file)) {
    options.listen.port = gang->members[gang->own].address.port;
  }
  return {};
}

/// Reads the file that describes the job's nodes, again only when it has changed.
class GangReader {
 public:
  explicit GangReader(std::string file) : file_(std::move(file)) {}
  Result<const GangFile*> Read() {
    struct stat about = {};
    const bool is_there = ::stat(GangFilePath(file_).c_str(), &about) == 0;
    const auto stamp = std::pair(about.st_ino, about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec);
    if (is_there && stamp == stamp_) return &gang_;
    auto gang = ReadGangFile(file_);
    if (!gang && gang.error().code == ErrorCode::kNotFound)
      return Unreachable("divvy: the job's nodes are not ready yet, so it has not started");
    if (!gang) return InvalidArgument("divvy: " + gang.error().message);
    gang_ = *std::move(gang);
    stamp_ = stamp;
    return &gang_;
  }

 private:
  std::string file_;
  GangFile gang_;
  std::pair<ino_t, std::int64_t> stamp_ = {0, -1};
};

Result<StepPlan> PlanAny(StepCall& call, const std::vector<std::string>& environment,
                         const std::vector<std::vector<int>>& machine, const StepIdentity& identity) {
  if (call.part) MoveToMachine(call, environment);
  else MoveInside(call, environment);
  const std::vector<std::string> rest(call.words.begin() + 1, call.words.end());
  if (call.words.front() == "srun") return slurm::PlanSrun(call, rest, machine, identity);
  if (call.words.front() == "internal-rsh") return PlanRsh(call, rest, machine, identity);
  return PlanRun(call, rest, machine, identity);
}

/// Runs the step process. Writes its port and errors for its starter to `port` and `errors`, and closes both.
int Serve(const StepsWords& words, int port, int errors) {
  ::prctl(PR_SET_NAME, kStepProcess);  // The job's supervisor finds the tasks by it.
  const std::vector<std::string> environment = OwnEnvironment();
  const std::vector<std::vector<int>> machine = NumaNodeCores();
  StepIdentity identity{"", slurm::Hostname(), slurm::CallerName(), nullptr, 0};
  StepServerOptions options;
  const auto tell = [](int fd, const std::string& text) { static_cast<void>(!::write(fd, text.data(), text.size())); };
  options.file = words.file;
  if (const Status prepared = PrepareForMachines(words, options); !prepared) {
    tell(errors, "divvy: " + prepared.error().message + "\n");
    return 1;
  }
  options.gpus = ReadJobAround(environment).gpus.size();
  options.cores = static_cast<int>(ParseInteger(EnvironmentValue(environment, "DIVVY_CPUS")).value_or(0));
  options.on_listening = [&](std::uint16_t number) {
    tell(port, std::to_string(number) + "\n");
    ::close(port);
    ::close(errors);
  };
  options.on_failure = [&](const std::string& why) { tell(errors, "divvy: " + why + "\n"); };
  GangReader gang(words.file);
  const bool spreads = !options.key.empty();
  options.planner = [&](StepCall& call) -> Result<StepPlan> {
    StepIdentity now = identity;
    if (spreads) {
      DIVVY_TRY(now.gang, gang.Read());
    }
    return PlanAny(call, environment, machine, now);
  };
  return RunStepServer(std::move(options));
}

/// Points descriptors 0, 1 and 2 to /dev/null, moves `port` and `errors` to 3 and 4, and closes all others.
bool Detach(int port, int errors) {
  const int nothing = ::open("/dev/null", O_RDWR);
  // Move them above their final numbers first, so that neither overwrites the other.
  const int high_port = ::fcntl(port, F_DUPFD, 8);
  const int high_errors = ::fcntl(errors, F_DUPFD, 8);
  if (nothing < 0 || high_port < 0 || high_errors < 0) return false;
  for (int fd = 0; fd < 3; ++fd) ::dup2(nothing, fd);
  if (::dup2(high_port, 3) < 0 || ::dup2(high_errors, 4) < 0) return false;
  // The step process must not keep the caller's other open files.
  CloseFrom(5);
  return ::chdir("/") == 0;
}

}  // namespace

int StepsMain(const std::vector<std::string>& all) {
  const auto words = ReadStepsWords(all);
  if (!words) return 2;
  if (words->stays) {
    if (!Detach(STDOUT_FILENO, STDERR_FILENO)) return 1;
    ::setpgid(0, 0);
    return Serve(*words, 3, 4);
  }
  std::array<int, 2> listens = {-1, -1};
  if (::pipe2(listens.data(), O_CLOEXEC) != 0) return 1;
  // The caller waits for this process and then continues. The job's supervisor becomes the parent of the step process.
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child > 0) {
    ::close(listens[1]);
    std::array<char, 16> port;
    ssize_t got = 0;
    while ((got = ::read(listens[0], port.data(), port.size())) < 0 && errno == EINTR) {
    }
    if (got > 0 && !words->listen.empty())
      static_cast<void>(!::write(STDOUT_FILENO, port.data(), static_cast<std::size_t>(got)));
    ::_exit(got > 0 ? 0 : 1);
  }
  if (!Detach(listens[1], STDERR_FILENO)) return 1;
  ::setpgid(0, 0);
  return Serve(*words, 3, 4);
}

}  // namespace divvy::cli
