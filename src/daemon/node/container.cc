#include "daemon/node/container.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "node/container_command.h"
#include "platform/isolation/container_engine.h"
#include "platform/os/process_tree.h"
#include "platform/records/step_list_file.h"

extern "C" char** environ;

namespace divvy {
namespace {

constexpr int kNotStarted = 125;  // podman and docker use this code for failures of the engine itself.

std::string Variable(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

std::vector<std::string> EngineEnvironment() {
  std::vector<std::string> out;
  for (const std::string_view view : kContainerEngineEnvironment) {
    const std::string name(view);
    if (std::getenv(name.c_str()) != nullptr) out.push_back(name + "=" + Variable(name));
  }
  return out;
}

/// Returns "0,1,2", with as many numbers as `list` has words.
std::string IndexList(const std::string& list) {
  std::string out;
  for (std::size_t i = 0, count = list.empty() ? 0 : Split(list, ',').size(); i < count; ++i)
    out += (i > 0 ? "," : "") + std::to_string(i);
  return out;
}

std::string Absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  char folder[4096];
  return ::getcwd(folder, sizeof folder) == nullptr ? path : std::string(folder) + "/" + path;
}

/// Starts the container of this process and manages it until its end.
class ContainerStart {
 public:
  ContainerStart(ContainerPlan plan, const std::vector<std::string>& words) : plan_(std::move(plan)) {
    ground_.environment = OwnEnvironment();
    ground_.uid = ::geteuid();
    ground_.gid = ::getegid();
    gid_t groups[256];
    for (int i = 0, count = ::getgroups(256, groups); i < count; ++i) ground_.groups.push_back(groups[i]);
    ground_.directory = Absolute(".");
    if (ground_.directory.ends_with("/."))
      ground_.directory.resize(std::max<std::size_t>(ground_.directory.size() - 2, 1));
    const bool is_script = !plan_.interpreter.empty();
    if (is_script) {
      ground_.script = Absolute(words.front());
      ground_.script_name = ground_.script.substr(ground_.script.rfind('/') + 1);
    }
    ground_.words.assign(words.begin() + 1, words.end());
    ground_.has_terminal = ::isatty(0) == 1 && ::isatty(1) == 1;
    ground_.name =
        "divvy-" + Variable("DIVVY_JOB_ID") + "-" + Variable("DIVVY_ATTEMPT") + "-" + std::to_string(::getpid());
    ground_.memory_bytes = ParseInteger(Variable("DIVVY_MEMORY_BYTES")).value_or(0);
    for (const std::string_view word : Split(Variable(kContainerOptionsVariable), '\n')) {
      if (!word.empty()) ground_.options.emplace_back(word);
    }
    program_ = is_script ? plan_.interpreter.substr(0, plan_.interpreter.find_first_of(" \t")) : ground_.words.front();
    log_path_ = ContainerLogPath(Variable("DIVVY_STEPS"));
    is_step_ = !Variable("DIVVY_STEP").empty();
  }

  int Run() {
    BlockSignals();
    if (const Status ready = Prepare(); !ready)
      return GiveUp(ready.error().message, ready.error().code == ErrorCode::kNotFound ? 127 : kNotStarted);
    if (const int code = FetchImage(); code != 0) {
      if (code > 128) return code;  // A signal has arrived meanwhile.
      return GiveUp(std::string(EngineName(ground_.kind)) + " could not fetch image '" + plan_.image +
                        "'; its message is in the output",
                    kNotStarted);
    }
    auto command = MakeContainerCommand(plan_, ground_);
    if (!command) return GiveUp(command.error().message, kNotStarted);
    Note(ContainerBegunText(ground_.engine, ground_.name, EngineEnvironment()));
    const int code = RunEngine(command->argv, command->environment, Output::kJob);
    const bool has_started = HasStarted(code);
    if (ground_.kind == EngineKind::kDocker || (ground_.kind == EngineKind::kPodman && !is_clean_))
      RunQuietly({ground_.engine, "rm", "-f", ground_.name});
    Note(ContainerEndedText(ground_.name));
    ::unlink(ground_.pid_file.c_str());
    const std::string why = WhyNotStarted(ground_.kind, code, has_started, program_, plan_.image);
    return why.empty() || was_signalled_ ? code : GiveUp(why, code);
  }

 private:
  enum class Output { kJob, kError, kNowhere };

  void BlockSignals() {
    // A process that ignores SIGCHLD is not notified of its children.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &standard, nullptr);
    ::sigfillset(&signals_);
    // Stop signals act on this process as well, and signals of a crash must not be blocked.
    for (const int signal : {SIGTSTP, SIGCONT, SIGTTIN, SIGTTOU, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
      ::sigdelset(&signals_, signal);
    ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
  }

  Status Prepare() {
    const std::string wanted = Variable(kContainerEngineVariable);
    DIVVY_TRY(const FoundEngine engine,
              FindContainerEngine(wanted.empty() ? "auto" : wanted, Variable("PATH"), Variable("DOCKER_HOST")));
    for (const EngineKind kind :
         {EngineKind::kPodman, EngineKind::kDocker, EngineKind::kApptainer, EngineKind::kSingularity}) {
      if (EngineName(kind) == engine.name) ground_.kind = kind;
    }
    ground_.engine = engine.path;
    if (ground_.kind == EngineKind::kPodman) ground_.pid_file = log_path_ + "." + ground_.name;
    DIVVY_TRY(ground_.needs, ParseContainerNeeds(Variable(kContainerNeedsVariable)));
    return FindGpus();
  }

  Status FindGpus() {
    std::string indices = Variable("DIVVY_GPUS");
    // For a MIG instance, the engine must be given the instance.
    std::string uuids = Variable(Variable("DIVVY_SLICE").empty() ? "DIVVY_GPU_UUIDS" : "CUDA_VISIBLE_DEVICES");
    const bool counts_own = Variable(kContainerGpusVariable) == "own";
    for (std::string& entry : ground_.environment) {
      constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES=";
      if (!entry.starts_with(kVisible)) continue;
      const std::string visible = entry.substr(kVisible.size());
      entry = std::string(kVisible) + VisibleByUuid(visible, counts_own ? IndexList(indices) : indices, uuids);
    }
    if (indices.empty()) return {};
    // A job with a GPU fraction may be moved to other GPUs.
    const ContainerNeeds& needs = ground_.needs;
    if (!needs.gpu_indices.empty()) {
      indices = Join(needs.gpu_indices, ",");
      uuids = Join(needs.gpu_uuids, ",");
    }
    const bool has_driver = ::access("/dev/nvidiactl", F_OK) == 0;
    if (ground_.kind != EngineKind::kPodman) {
      // Emulated GPUs have no devices to pass on.
      if (!has_driver) return {};
      for (const std::string_view gpu : Split(uuids.empty() ? indices : uuids, ',')) ground_.gpus.emplace_back(gpu);
      return {};
    }
    auto names = FindCdiNames(ReadCdiDescriptions(), indices, uuids);
    if (!names && has_driver) return names.error();
    if (names) ground_.gpus = *std::move(names);
    return {};
  }

  /// Returns 0 if the image is there, otherwise the engine's exit code.
  int FetchImage() {
    if (ground_.kind != EngineKind::kPodman && ground_.kind != EngineKind::kDocker) return 0;
    const bool is_podman = ground_.kind == EngineKind::kPodman;
    const char* ask = is_podman ? "exists" : "inspect";
    if (RunQuietly({ground_.engine, "image", ask, plan_.image}) == 0) return 0;
    if (was_signalled_) return 128 + last_signal_;
    std::fprintf(stderr, "divvy: fetching image %s\n", plan_.image.c_str());
    const int code = RunEngine({ground_.engine, "pull", plan_.image}, ground_.environment, Output::kError);
    return was_signalled_ ? 128 + last_signal_ : code;
  }

  bool HasStarted(int code) {
    if (code != 125 && code != 126 && code != 127) return true;
    if (ground_.kind == EngineKind::kPodman) return !ReadContainerFile(ground_.pid_file, 64).empty();
    if (ground_.kind != EngineKind::kDocker) return code != 125;
    // For a container that has never started, docker reports the year 1 as its start.
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return true;
    const Descriptor from(ends[0]);
    Descriptor into(ends[1]);
    const std::vector<std::string> argv = {ground_.engine, "inspect", "--format={{.State.StartedAt}}", ground_.name};
    if (RunEngine(argv, ground_.environment, Output::kNowhere, into.get()) != 0) return true;
    into.Reset();
    char text[64] = "";
    return ::read(from.get(), text, sizeof text - 1) > 0 && !std::string_view(text).starts_with("0001");
  }

  int RunQuietly(const std::vector<std::string>& argv) {
    return RunEngine(argv, ground_.environment, Output::kNowhere);
  }

  /// Runs the container engine to its end and returns its exit code, or 128 plus the number of the signal that ended
  /// it. The engine's standard output goes to the descriptor `answer`, or if that is -1, where `output` says.
  int RunEngine(const std::vector<std::string>& argv, const std::vector<std::string>& environment, Output output,
                int answer = -1) {
    const pid_t child = Fork(argv, environment, output, answer);
    if (child < 0) return 126;
    while (true) {
      siginfo_t info = {};
      const int signal = ::sigwaitinfo(&signals_, &info);
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) == child) {
        is_clean_ = WIFEXITED(status);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      if (signal <= 0 || signal == SIGCHLD || signal == SIGWINCH) continue;
      was_signalled_ = was_signalled_ || output != Output::kJob;
      last_signal_ = signal;
      if (ReachesEngine(info, output)) ::kill(child, signal);
    }
  }

  /// Returns true if a signal must be passed on to the engine. The processes of a container below the job's supervisor
  /// get its signals from there. Signals of a step's process only reach this process.
  bool ReachesEngine(const siginfo_t& info, Output output) const {
    if (output != Output::kJob || ground_.kind != EngineKind::kPodman) return true;
    if (is_step_ && info.si_pid == ::getppid()) return true;
    return ReadContainerFile(ground_.pid_file, 64).empty();  // The container does not exist yet.
  }

  pid_t Fork(const std::vector<std::string>& argv, const std::vector<std::string>& environment, Output output,
             int answer) const {
    std::vector<char*> words, entries;
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& entry : environment) entries.push_back(const_cast<char*>(entry.c_str()));
    words.push_back(nullptr);
    entries.push_back(nullptr);
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    // A step is ended by a signal to its process group; this process tells the engine.
    if (!ground_.has_terminal) ::setpgid(0, 0);
    if (output != Output::kJob) {
      const int nothing = ::open("/dev/null", O_RDWR);
      ::dup2(nothing, 0);
      ::dup2(answer >= 0 ? answer : output == Output::kError ? 2 : nothing, 1);
      if (output == Output::kNowhere) ::dup2(nothing, 2);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(words.front(), words.data(), entries.data());
    ::_exit(126);
  }

  void Note(const std::string& text) const {
    const Descriptor file(::open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    ShareWithDaemon(file.get());
    // If this write fails, at worst an ended container stays in the engine's list.
    if (file.is_open()) static_cast<void>(!::write(file.get(), text.data(), text.size()));
  }

  int GiveUp(const std::string& why, int code) const {
    std::fprintf(stderr, "divvy: %s\n", why.c_str());
    // The end of a step is not the end of its job.
    if (!is_step_) Note(ContainerFailedText(why));
    return code;
  }

  ContainerPlan plan_;
  ContainerGround ground_;
  std::string program_;  // Used in messages.
  std::string log_path_;
  bool is_step_ = false;
  sigset_t signals_ = {};
  bool is_clean_ = true;        // The engine's last process ended by itself.
  bool was_signalled_ = false;  // A signal arrived before the container existed.
  int last_signal_ = 0;
};

}  // namespace

int ContainerMain(const std::vector<std::string>& words) {
  ::prctl(PR_SET_NAME, kContainerStarter);
  auto plan = ParseContainerPlan(Variable(kContainerVariable));
  if (!plan || words.empty() || Variable("DIVVY_STEPS").empty() || (words.size() < 2 && plan->interpreter.empty())) {
    std::fprintf(stderr, "divvy: internal-container is for divvy's own use, inside a job%s\n",
                 plan ? "" : (": " + plan.error().message).c_str());
    return kNotStarted;
  }
  return ContainerStart(*std::move(plan), words).Run();
}

}  // namespace divvy
