#include "platform/steps/step_task.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";
constexpr std::string_view kTaskPid = "SLURM_TASK_PID=";

enum class Place { kDone, kSession, kDirectory, kInput, kOutput, kError, kExecute };

// The new process uses these values until it executes the program. Until then it shares the memory of this process, so
// everything is prepared beforehand, and the new process allocates nothing.
struct Start {
  const StepTask* task = nullptr;
  const StepCall* call = nullptr;
  std::array<int, 3> pipes = {-1, -1, -1};
  int terminal = -1;
  /// True if the task uses a terminal: its own, or its caller's, whose job control must not affect it. Then it gets its
  /// own session. Otherwise it stays in the job's session, where a daemon finds it even without supervisor and guard.
  bool has_terminal = false;
  pid_t parent = 0;
  std::string program;
  std::vector<char*> argv;
  std::vector<char*> environment;
  std::vector<char*> shell_argv;  // For a file without "#!".
  char pid_text[48] = "";
  cpu_set_t cores;

  Place place = Place::kDone;  // The failed step.
  int error = 0;
};

[[noreturn]] void Fail(Start& start, Place place) {
  start.place = place;
  start.error = errno;
  ::_exit(1);
}

/// Opens a file as descriptor `target`. Uses O_NONBLOCK, because the other end of a named pipe may never be opened, and
/// then all other steps would wait as well.
bool Replace(int target, const char* path, int flags) {
  const int fd = ::open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  return fd >= 0 && ::fcntl(fd, F_SETFL, flags & O_APPEND) == 0 && ::dup2(fd, target) >= 0;
}

bool OpenStream(const Start& start, std::size_t target) {
  const StepStream& stream = start.task->streams[target];
  const int fd = static_cast<int>(target);
  if (start.terminal >= 0) return ::dup2(start.terminal, fd) >= 0;
  switch (stream.kind) {
    case StepStream::Kind::kCaller:
      return ::dup2(start.call->streams[target].get(), fd) >= 0;
    case StepStream::Kind::kLabelled:
      return ::dup2(start.pipes[target], fd) >= 0;
    case StepStream::Kind::kOutput:
      return ::dup2(STDOUT_FILENO, fd) >= 0;
    case StepStream::Kind::kNothing:
      return Replace(fd, "/dev/null", O_RDWR);
    case StepStream::Kind::kFile:
      break;
  }
  if (target == 0) return Replace(fd, stream.path.c_str(), O_RDONLY);
  // Tasks that share a file append, so that none overwrites another's output; the first one truncates it.
  return Replace(fd, stream.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | (stream.truncates ? O_TRUNC : 0));
}

int RunChild(void* argument) {
  Start& start = *static_cast<Start*>(argument);
  if ((start.has_terminal ? ::setsid() : ::setpgid(0, 0)) < 0) Fail(start, Place::kSession);
  // Without the step process, nothing would wait for the task, and its GPUs would be given to other steps.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Uses the system call, because the C library may return a cached pid of the process whose memory this is.
  if (static_cast<pid_t>(::syscall(SYS_getppid)) != start.parent) ::_exit(1);
  ::sched_setaffinity(0, sizeof start.cores, &start.cores);
  for (std::size_t i = 0; i < start.call->limits.size(); ++i) {
    const auto resource = static_cast<__rlimit_resource>(i);
    rlimit limit = {};
    const rlimit& wanted = start.call->limits[i];
    if (::getrlimit(resource, &limit) == 0 && (limit.rlim_cur != wanted.rlim_cur || limit.rlim_max != wanted.rlim_max))
      ::setrlimit(resource, &wanted);
  }
  ::umask(start.call->umask);
  if (start.terminal >= 0) ::ioctl(start.terminal, TIOCSCTTY, 0);
  if (::chdir(start.task->directory.c_str()) != 0) Fail(start, Place::kDirectory);
  for (std::size_t target = 0; target < 3; ++target) {
    if (!OpenStream(start, target))
      Fail(start, static_cast<Place>(static_cast<int>(Place::kInput) + static_cast<int>(target)));
  }
  std::snprintf(start.pid_text, sizeof start.pid_text, "%.*s%ld", static_cast<int>(kTaskPid.size()), kTaskPid.data(),
                ::syscall(SYS_getpid));
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(start.program.c_str(), start.argv.data(), start.environment.data());
  if (errno == ENOEXEC) ::execve("/bin/sh", start.shell_argv.data(), start.environment.data());
  Fail(start, Place::kExecute);
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 2);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  return out;
}

/// Finds the program like execvp. Searches here, because a failing execve() costs many times as much.
std::string FindProgram(const StepTask& task) {
  const std::string& name = task.command.front();
  if (name.find('/') != std::string::npos) return name;
  std::string_view path = kDefaultPath;
  for (const std::string& entry : task.environment) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  std::string found = name;  // Not an absolute path: the program was not found.
  for (const std::string_view folder : Split(path, ':')) {
    std::string full = folder.empty() ? task.directory + "/" + name : std::string(folder) + "/" + name;
    if (full.front() != '/') full = task.directory + "/" + full;
    struct stat status = {};
    if (::stat(full.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (::access(full.c_str(), X_OK) == 0) return full;
    if (found == name) found = full;  // A file that may not be executed is reported, unless a later one may be.
  }
  // execve() would look for a bare name in the task's directory.
  return found == name ? "/dev/null/" + name : found;
}

std::string Describe(const Start& start, int& code) {
  const StepTask& task = *start.task;
  const std::string why = std::string(": ") + std::strerror(start.error == ENOTDIR ? ENOENT : start.error);
  code = 1;
  switch (start.place) {
    case Place::kDone:
      return "";
    case Place::kSession:
      return "cannot leave its caller's process group" + why;
    case Place::kDirectory:
      return "cannot enter directory " + task.directory + why;
    case Place::kInput:
    case Place::kOutput:
    case Place::kError:
      return "cannot open " +
             task.streams[static_cast<std::size_t>(start.place) - static_cast<std::size_t>(Place::kInput)].path + why;
    case Place::kExecute:
      break;
  }
  code = start.error == ENOENT || start.error == ENOTDIR ? 127 : 126;
  return "execve(): " + task.command.front() + why;
}

}  // namespace

StartedTask StartStepTask(const StepTask& task, const StepCall& call, const std::array<int, 3>& pipes, int terminal) {
  Start start;
  start.task = &task;
  start.call = &call;
  start.pipes = pipes;
  start.terminal = terminal;
  start.has_terminal = terminal >= 0;
  for (const Descriptor& stream : call.streams) start.has_terminal = start.has_terminal || ::isatty(stream.get()) == 1;
  start.parent = ::getpid();
  start.program = FindProgram(task);
  start.argv = Pointers(task.command);
  start.argv.push_back(nullptr);
  start.environment = Pointers(task.environment);
  std::erase_if(start.environment, [](const char* entry) { return std::string_view(entry).starts_with(kTaskPid); });
  start.environment.push_back(start.pid_text);
  start.environment.push_back(nullptr);
  static char shell[] = "/bin/sh";
  start.shell_argv = {shell, const_cast<char*>(start.program.c_str())};
  start.shell_argv.insert(start.shell_argv.end(), start.argv.begin() + 1, start.argv.end());
  CPU_ZERO(&start.cores);
  for (const int core : task.cores.empty() ? call.cores : task.cores) {
    if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &start.cores);
  }

  // Like vfork, but with its own stack: no page table is copied, and we continue when the program is executed.
  alignas(16) static char stack[32'768];
  const int pid = ::clone(RunChild, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &start);
  StartedTask started;
  if (pid < 0) {
    started.failure = std::string("cannot make a process: ") + std::strerror(errno);
    started.failure_code = 1;
    return started;
  }
  started.failure = Describe(start, started.failure_code);
  if (started.failure.empty()) started.pid = pid;
  else ::waitpid(pid, nullptr, 0);
  return started;
}

}  // namespace divvy
