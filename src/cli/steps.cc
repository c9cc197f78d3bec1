#include "cli/steps.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "cli/command.h"
#include "cli/shims/slurm_common.h"
#include "dialect/container_options.h"
#include "dialect/job_options.h"
#include "dialect/task_options.h"
#include "platform/numa_cores.h"
#include "platform/places.h"
#include "platform/step_client.h"
#include "platform/step_list_file.h"

extern char** environ;

namespace divvy::cli {
namespace {

constexpr auto kStartMost = std::chrono::seconds(10);

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

/// Whatever the caller has open beyond its streams is not the step process's to keep.
void CloseFrom(int first) {
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) return;
  for (int fd = first; fd < 1024; ++fd) ::close(fd);
}

/// Returns when the step process listens, or has found that there is one already.
Status StartStepProcess(const std::string& file) {
  const std::array<const char*, 4> words = {"divvy", "internal-steps", file.c_str(), nullptr};
  pid_t pid = -1;
  // It leaves our process group: a Ctrl-C is for us to pass on.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int failure =
      ::posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, const_cast<char* const*>(words.data()), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) return Internal(std::string("cannot start the job's step process: ") + std::strerror(failure));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return FailedPrecondition("the job's step process cannot listen at " + StepSocketOf(file) +
                            "; is its folder there, and yours?");
}

/// A caller outside the job (srun --jobid) has its own surroundings, and none of the job's.
void MoveInside(StepCall& call, const std::vector<std::string>& job) {
  const std::string id = EnvironmentValue(job, "DIVVY_JOB_ID");
  if (EnvironmentValue(call.environment, "DIVVY_JOB_ID") == id) return;
  const auto is_jobs = [](std::string_view entry) {
    return entry.starts_with("DIVVY_") || entry.starts_with("SLURM_") || entry.starts_with("CUDA_");
  };
  std::erase_if(call.environment, is_jobs);
  std::ranges::copy_if(job, std::back_inserter(call.environment), is_jobs);
}

/// What a step has no use for is told rather than left out: it would change what the user means.
Status CheckIsStep(const JobSpec& spec, const std::string& job) {
  JobSpec rest = spec;
  const JobSpec plain;
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
  request.cpus = plain.request.cpus;
  request.tasks = plain.request.tasks;
  if (rest == plain && request == plain.request) return {};
  return InvalidArgument("this is inside job " + job +
                         ", where divvy run starts a step of it: --gpus, --cpus, --tasks, --gpus-per-task, --gpu-bind, "
                         "--cpu-bind, --no-kill, --label-output, --output, --error, --input, --append, --chdir, --env "
                         "and --pty apply; for a job of its own write divvy run --as-job");
}

}  // namespace

std::string StepListOf(const std::vector<std::string>& environment) {
  if (std::string file = EnvironmentValue(environment, "DIVVY_STEPS"); !file.empty()) return file;
  const JobAround job = ReadJobAround(environment);
  const auto number = ParseInteger(job.id);
  if (!number || *number < 1) return "";
  return StepListPath(FindPlaces().runs, ::geteuid(), static_cast<std::uint64_t>(*number));
}

int RunInStepOf(const std::string& job, std::string_view command, const std::vector<std::string>& words) {
  const std::string program = command == "srun" ? "srun" : "divvy";
  const std::string name(command);
  std::vector<const char*> all = {name.c_str()};
  for (const std::string& word : words) all.push_back(word.c_str());
  const auto number = ParseInteger(job);
  if (number && *number > 0) {
    const std::string file = StepListPath(FindPlaces().runs, ::geteuid(), static_cast<std::uint64_t>(*number));
    if (const auto code = CallStep({StepSocketOf(file), all, environ, program, program == "srun"})) return *code;
  }
  std::fprintf(stderr, "%s: error: job %s is not a job of yours that runs here and has started a step\n",
               program.c_str(), job.c_str());
  return 1;
}

int RunInStep(std::string_view command, const std::vector<std::string>& words) {
  const std::string program = command == "srun" ? "srun" : "divvy";
  const std::string name(command);
  std::vector<const char*> all = {name.c_str()};
  for (const std::string& word : words) all.push_back(word.c_str());
  const std::string file = StepListOf(OwnEnvironment());
  const StepCaller caller{StepSocketOf(file), all, environ, program, program == "srun"};
  const auto deadline = std::chrono::steady_clock::now() + kStartMost;
  for (;;) {
    if (const auto code = CallStep(caller)) return *code;
    const Status started = StartStepProcess(file);
    if (started && std::chrono::steady_clock::now() < deadline) {
      // Another one has been started at this moment, or one is leaving: it has the lock, and does not listen.
      if (const auto code = CallStep(caller)) return *code;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      continue;
    }
    const std::string why = started ? "the job's step process does not answer" : started.error().message;
    std::fprintf(stderr, "%s: error: %s\n", program.c_str(), why.c_str());
    return 1;
  }
}

Result<StepPlan> PlanRun(const StepCall& call, const std::vector<std::string>& words,
                         const std::vector<std::vector<int>>& machine, const StepIdentity& identity) {
  const auto failed = [](const Error& error) { return InvalidArgument("divvy: " + error.message); };
  JobAround job = ReadJobAround(call.environment);
  dialect::Surroundings around;
  around.environment = call.environment;
  around.directory = call.directory;
  around.hostname = identity.hostname;
  JobSpec spec;
  auto parsed = dialect::ParseOptions(dialect::JobOptions(spec, around), words, {true, true, false});
  if (!parsed) return failed(parsed.error());
  std::vector<std::string> command = std::move(parsed->positional);
  command.insert(command.end(), parsed->after_dashes.begin(), parsed->after_dashes.end());
  if (command.empty()) return failed(InvalidArgument("nothing to run; write: divvy run [OPTIONS] COMMAND..."));
  if (const Status is_step = CheckIsStep(spec, job.id); !is_step) return failed(is_step.error());

  const dialect::TaskOptions options = dialect::ReadTaskOptions(spec);
  StepAsk ask;
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
  if (ask.own_gpus && *ask.own_gpus > static_cast<int>(job.gpus.size())) {
    return failed(InvalidArgument("the step asks for " + Plural(*ask.own_gpus, "GPU") + ", and job " + job.id +
                                  " has " + std::to_string(job.gpus.size()) +
                                  "; divvy run --as-job makes a job of its own"));
  }
  ask.commands = {std::move(command)};
  if (const Status checked = dialect::CheckContainer(spec); !checked) return failed(checked.error());
  if (spec.directory.empty()) spec.directory = call.directory;
  auto container = dialect::ContainerOf(spec, false);
  if (!container) return failed(container.error());
  if (*container) ask.container = FormatContainerPlan(**container);
  ask.directory = spec.directory;
  ask.output = spec.output;
  ask.error = spec.error;
  ask.input = spec.input;
  ask.appends = spec.appends_output;
  ask.has_labels = options.labels_output;
  ask.has_terminal = spec.wants_pty;
  ask.kills_on_bad_exit = !options.keeps_others;
  // One task's exit code says it all.
  ask.is_quiet = ask.deal.tasks == 1;
  for (const std::string& entry : spec.extra_environment) job.environment.push_back(entry);
  return PlanStep(std::move(ask), std::move(job), call, machine, identity);
}

int StepsMain(const std::vector<std::string>& words) {
  if (words.size() != 1 || words.front().empty() || words.front().front() != '/') return 2;
  std::array<int, 2> listens = {-1, -1};
  if (::pipe2(listens.data(), O_CLOEXEC) != 0) return 1;
  // The caller waits for us and goes on; the job's supervisor becomes the parent of the step process.
  const pid_t child = ::fork();
  if (child < 0) return 1;
  if (child > 0) {
    ::close(listens[1]);
    char is_ready = 0;
    while (::read(listens[0], &is_ready, 1) < 0 && errno == EINTR) {
    }
    ::_exit(is_ready == 'y' ? 0 : 1);
  }
  const int nothing = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3 && nothing >= 0; ++fd) ::dup2(nothing, fd);
  const int ready = ::dup2(listens[1], 3);
  CloseFrom(4);
  ::setpgid(0, 0);
  if (::chdir("/") != 0) return 1;
  const std::vector<std::string> environment = OwnEnvironment();
  const std::vector<std::vector<int>> machine = NumaNodeCores();
  StepIdentity identity{"", slurm::Hostname(), slurm::CallerName()};
  StepServerOptions options;
  options.file = words.front();
  options.gpus = ReadJobAround(environment).gpus.size();
  options.cores = static_cast<int>(ParseInteger(EnvironmentValue(environment, "DIVVY_CPUS")).value_or(0));
  options.on_listening = [ready] {
    static_cast<void>(!::write(ready, "y", 1));
    ::close(ready);
  };
  options.planner = [&](StepCall& call) -> Result<StepPlan> {
    MoveInside(call, environment);
    const std::vector<std::string> rest(call.words.begin() + 1, call.words.end());
    if (call.words.front() == "srun") return slurm::PlanSrun(call, rest, machine, identity);
    return PlanRun(call, rest, machine, identity);
  };
  return RunStepServer(std::move(options));
}

}  // namespace divvy::cli
