#include "platform/supervisor/supervisor_job.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/text.h"
#include "model/exit_codes.h"
#include "platform/os/process_title.h"
#include "platform/os/process_tree.h"
#include "platform/os/unix_socket.h"
#include "platform/users/user_limits.h"

extern char** environ;

namespace divvy {
namespace {

// Used if PATH is missing; the same as Debian's login sets.
constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

enum class Step {
  kDone,
  kSession,
  kTerminal,
  kCgroup,
  kMounts,
  kRecord,
  kUser,
  kDirectory,
  kInput,
  kOutput,
  kError,
  kPrivileges,
  kKey,
  kExecute
};

constexpr std::string_view kTaskPid = "SLURM_TASK_PID=";

// The outcome that the new process writes to shared memory.
struct StartOutcome {
  Step step = Step::kDone;  // The failed step.
  int error = 0;
  ProcessIdentity process;
  Time started = kNoTime;
};

// The new process uses these values until it executes the program. Until then it shares the memory of this process, so
// everything is prepared beforehand, and the new process allocates nothing.
struct Start {
  const StartPlan* plan = nullptr;
  std::vector<SystemLimit> limits;
  std::vector<char*> argv;
  std::vector<char*> environment;
  std::array<char, 40> pid_text{};  // Replaces an empty SLURM_TASK_PID.
  std::vector<char*> shell_argv;    // For a file without "#!": /bin/sh FILE ARGUMENTS, as in execvp.
  int namespaces = -1;              // Socket over which the namespaces of plan->mounts are sent.

  StartOutcome* outcome = nullptr;
};

// Returns the code that a shell would return: 127 for a program that does not exist.
int CodeOf(const StartOutcome& outcome) {
  switch (outcome.step) {
    case Step::kSession:
    case Step::kTerminal:
    case Step::kCgroup:
    case Step::kMounts:
    case Step::kRecord:
    case Step::kPrivileges:
    case Step::kKey:
      return kMachineCannot;
    case Step::kExecute:
      return outcome.error == ENOENT || outcome.error == ENOTDIR ? kCannotFind : kCannotRun;
    default:
      return kCannotRun;
  }
}

[[noreturn]] void Fail(Start& start, Step step) {
  start.outcome->step = step;
  start.outcome->error = errno;
  // The exit code says why the start failed, for a guard that takes over and sees only this code.
  ::_exit(CodeOf(*start.outcome));
}

bool Replace(int target, const std::string& path, int flags) {
  // O_NONBLOCK: the other end of a named pipe may never be opened, and the supervisor would wait too. O_NOCTTY: opening
  // a terminal must not make it the job's controlling terminal.
  const int fd = ::open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  return fd >= 0 && ::fcntl(fd, F_SETFL, flags & O_APPEND) == 0 && ::dup2(fd, target) >= 0;
}

void WriteRecord(Start& start) {
  const StartPlan& plan = *start.plan;
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  StartOutcome& outcome = *start.outcome;
  outcome.started = Time(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  // Uses the system call, because the C library may return a cached pid of the process whose memory this is.
  outcome.process = IdentifyProcess(static_cast<pid_t>(::syscall(SYS_getpid)));
  char text[4096];
  const int size = std::snprintf(text, sizeof text, "%sprocess=%lld %llu\nstarted=%lld\n", plan.watch.c_str(),
                                 static_cast<long long>(outcome.process.pid),
                                 static_cast<unsigned long long>(outcome.process.start_ticks),
                                 static_cast<long long>(outcome.started.time_since_epoch().count()));
  if (size >= static_cast<int>(sizeof text)) errno = ENAMETOOLONG;
  if (size >= static_cast<int>(sizeof text) || ::write(plan.record, text, static_cast<std::size_t>(size)) != size) {
    Fail(start, Step::kRecord);
  }
}

void JoinCgroup(Start& start) {
  for (const std::string& file : start.plan->cgroup_procs) {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ::write(fd, "0", 1) != 1) Fail(start, Step::kCgroup);
    ::close(fd);
  }
}

// Uses the system calls. The library's wrappers would signal the other threads of this process, and the memory is
// shared. From here on the kernel does not let the user's processes trace us (the memory is not dumpable).
void BecomeUser(Start& start) {
  const StartPlan& plan = *start.plan;
  const auto uid = static_cast<uid_t>(plan.request->uid);
  const auto gid = static_cast<gid_t>(plan.request->gid);
  if (::syscall(SYS_setgroups, plan.groups->size(), plan.groups->data()) != 0 ||
      ::syscall(SYS_setresgid, gid, gid, gid) != 0 || ::syscall(SYS_setresuid, uid, uid, uid) != 0) {
    Fail(start, Step::kUser);
  }
}

void OpenStreams(Start& start) {
  const StartPlan& plan = *start.plan;
  const LaunchRequest& request = *plan.request;
  // Appends in any case, so that the job does not overwrite lines that others append, such as scontrol notify.
  const int create = O_WRONLY | O_CREAT | O_APPEND | (request.appends_output ? 0 : O_TRUNC);
  if (!plan.terminal.empty()) return;  // All three are the terminal already.

  if (request.streams[0] >= 0) ::dup2(request.streams[0], 0);
  else if (!request.input.empty() && !Replace(0, request.input, O_RDONLY)) Fail(start, Step::kInput);

  if (request.streams[1] >= 0) ::dup2(request.streams[1], 1);
  else if (plan.own_log >= 0) ::dup2(plan.own_log, 1);
  else if (!request.output.empty() && !Replace(1, request.output, create)) Fail(start, Step::kOutput);

  if (request.streams[2] >= 0) ::dup2(request.streams[2], 2);
  else if (request.error.empty() || request.error == request.output) ::dup2(1, 2);
  else if (!Replace(2, request.error, create)) Fail(start, Step::kError);
}

void TakeTerminal(Start& start) {
  const int fd = ::open(start.plan->terminal.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 || ::ioctl(fd, TIOCSCTTY, 0) != 0) Fail(start, Step::kTerminal);
  for (int target = 0; target < 3; ++target) ::dup2(fd, target);
}

void ResetSignals() {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  // The launcher has reset all others; only signals that it ignores or that we handle are left.
  for (const int signal : {SIGCHLD, SIGPIPE}) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void Execute(Start& start) {
  int error = ENOENT;
  if (start.plan->program->executable >= 0) {
    ::syscall(SYS_execveat, start.plan->program->executable, "", start.argv.data(), start.environment.data(),
              AT_EMPTY_PATH);
    Fail(start, Step::kExecute);
  }
  for (const std::string& path : start.plan->program->candidates) {
    ::execve(path.c_str(), start.argv.data(), start.environment.data());
    if (errno == ENOEXEC) {
      start.shell_argv[1] = const_cast<char*>(path.c_str());
      ::execve("/bin/sh", start.shell_argv.data(), start.environment.data());
    }
    // Like execvp: if one PATH entry has the file but it may not be executed, and others lack it, the error is EACCES.
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
  }
  errno = error;
  Fail(start, Step::kExecute);
}

// Continues a fork as the first process of a node allocation, in its own copy of the memory. The process sets its title
// and environment as if it had been executed.
[[noreturn]] void BecomeAllocation(Start& start) {
  const StartPlan& plan = *start.plan;
  CloseFrom(kAllocationKeyDescriptor + 1);
  environ = start.environment.data();
  std::string title;
  for (const std::string& word : plan.program->argv) title += (title.empty() ? "" : " ") + word;
  ShowProcessAs(title, "DIVVY_JOB_ID=" + ToString(plan.request->job));
  ::_exit((*plan.allocation_main)(plan.program->argv));
}

int RunChild(void* argument) {
  Start& start = *static_cast<Start*>(argument);
  const StartPlan& plan = *start.plan;
  const LaunchRequest& request = *plan.request;
  if (::setsid() < 0) Fail(start, Step::kSession);
  JoinCgroup(start);
  if (!plan.is_another) WriteRecord(start);
  SetSystemLimits(start.limits);
  ::umask(static_cast<mode_t>(request.umask));
  if (!plan.terminal.empty()) TakeTerminal(start);
  if (plan.joins != nullptr && JoinNamespaces(*plan.joins) != 0) Fail(start, Step::kMounts);
  if (plan.mounts != nullptr &&
      (EnterMounts(*plan.mounts) != 0 || SendNamespaces(*plan.mounts, start.namespaces) != 0)) {
    Fail(start, Step::kMounts);
  }
  if (plan.changes_user) BecomeUser(start);
  if (::chdir(request.directory.empty() ? "/" : request.directory.c_str()) != 0) Fail(start, Step::kDirectory);
  OpenStreams(start);
  if (!request.isolation.keeps_privileges && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    Fail(start, Step::kPrivileges);
  }
  // Puts the key on its fixed descriptor. The supervisor's descriptor with that number is overwritten; this process
  // does not need it.
  if (plan.key >= 0 && ::dup2(plan.key, kAllocationKeyDescriptor) < 0) Fail(start, Step::kKey);
  ResetSignals();
  std::snprintf(start.pid_text.data(), start.pid_text.size(), "%.*s%ld", static_cast<int>(kTaskPid.size()),
                kTaskPid.data(), ::syscall(SYS_getpid));
  if (plan.allocation_main != nullptr) BecomeAllocation(start);
  Execute(start);
}

// Creates the process like vfork, but with its own stack: no page table is copied. Returns when the program is
// executed, and then has the results that the new process left in `start`.
StartOutcome StartProgram(Start& start, int& pid) {
  StartOutcome outcome;
  start.outcome = &outcome;
  alignas(16) static char stack[32768];
  pid = ::clone(RunChild, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &start);
  return outcome;
}

// Forks the first process of a node allocation. Returns when this process has closed the supervisor's descriptors, or
// has ended.
StartOutcome StartAllocation(Start& start, int& pid) {
  std::array<int, 2> ends = {-1, -1};
  void* shared = ::mmap(nullptr, sizeof(StartOutcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || ::pipe2(ends.data(), O_CLOEXEC) != 0) {
    if (shared != MAP_FAILED) ::munmap(shared, sizeof(StartOutcome));
    pid = -1;
    return {};
  }
  start.outcome = new (shared) StartOutcome();
  const Descriptor begun(ends[0]);
  Descriptor begins(ends[1]);
  pid = ::fork();
  if (pid == 0) RunChild(&start);
  const int error = errno;
  begins.Reset();
  char none = 0;
  while (pid > 0 && ::read(begun.get(), &none, 1) < 0 && errno == EINTR) {
  }
  const StartOutcome outcome = *start.outcome;
  ::munmap(shared, sizeof(StartOutcome));
  errno = error;
  return outcome;
}

std::string Describe(const Start& start, const StartOutcome& outcome, int& code) {
  const LaunchRequest& request = *start.plan->request;
  const JobProgram& program = *start.plan->program;
  const std::string why = std::string(": ") + std::strerror(outcome.error);
  const auto quoted = [](const std::string& text) { return "'" + text + "'"; };
  code = CodeOf(outcome);
  switch (outcome.step) {
    case Step::kDone:
      return "";
    case Step::kSession:
      return "cannot open a session for the job" + why;
    case Step::kTerminal:
      return "cannot give the job a terminal" + why;
    case Step::kCgroup:
      return "cannot join the cgroup of the job" + why;
    case Step::kMounts:
      return "cannot give the job its own mounts" + why;
    case Step::kPrivileges:
      return "cannot set no_new_privs for the job" + why;
    case Step::kKey:
      return "cannot give the job the key of its nodes" + why;
    case Step::kRecord:
      return "cannot write the run record of the job" + why;
    case Step::kUser:
      return "cannot become the user with uid " + std::to_string(request.uid) + why;
    case Step::kDirectory:
      if (request.isolation.has_own_tmp && request.directory.starts_with("/tmp/")) {
        return "cannot enter directory " + quoted(request.directory) +
               ": it is below /tmp, and the job has its own, empty /tmp (--private-tmp, or private_tmp in divvy.toml "
               "of this node); choose another directory with --chdir, or submit with --private-tmp=no";
      }
      return "cannot enter directory " + quoted(request.directory) + why;
    case Step::kInput:
      return "cannot open " + quoted(request.input) + " for reading" + why;
    case Step::kOutput:
      return "cannot open " + quoted(request.output) + " for writing" + why;
    case Step::kError:
      return "cannot open " + quoted(request.error) + " for writing" + why;
    case Step::kExecute:
      break;
  }
  const std::string cannot = "cannot run " + quoted(program.shown_name);
  if (program.interpreter.empty()) {
    // The kernel also returns "no such file" if the file's interpreter is missing.
    const std::string& path = program.candidates.empty() ? program.shown_name : program.candidates.front();
    const std::string full = path.front() == '/' ? path : request.directory + "/" + path;
    const bool is_there = program.candidates.size() == 1 && ::access(full.c_str(), F_OK) == 0;
    return cannot + (outcome.error == ENOENT && is_there ? ": the interpreter in its first line does not exist" : why);
  }
  const bool is_dos = program.interpreter.back() == '\r';
  const std::string shown = program.interpreter.substr(0, program.interpreter.find('\r'));
  return cannot + ": its interpreter " + quoted(shown) + why +
         (is_dos ? " (its first line ends in a carriage return, as on Windows; fix it with dos2unix)" : "");
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

std::string_view SearchPath(const std::vector<std::string>& environment) {
  for (const std::string& variable : environment) {
    if (variable.starts_with("PATH=")) return std::string_view(variable).substr(5);
  }
  return kDefaultPath;
}

// Parses the "#!" line like Linux: the interpreter, and the rest of the line as one argument.
std::vector<std::string> InterpreterOf(std::string_view script) {
  if (!script.starts_with("#!")) return {"/bin/sh"};
  // Does not use Trim(): as in Linux, a carriage return is part of the name, and the error then reports it.
  std::string_view line = script.substr(2, script.find('\n') - 2);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  line = line.substr(0, line.find_last_not_of(" \t") + 1);
  if (line.empty()) return {"/bin/sh"};
  const std::size_t blank = line.find_first_of(" \t");
  if (blank == std::string_view::npos) return {std::string(line)};
  return {std::string(line.substr(0, blank)), std::string(Trim(line.substr(blank)))};
}

}  // namespace

JobProgram ResolveProgram(const LaunchRequest& request, const std::string& script_path) {
  JobProgram program;
  if (!request.script.empty()) {
    program.argv = InterpreterOf(request.script);
    program.interpreter = program.argv.front();
    program.candidates = {program.interpreter};
    program.argv.push_back(script_path);
    program.argv.insert(program.argv.end(), request.arguments.begin(), request.arguments.end());
    program.shown_name = request.script_name.empty() ? "script" : request.script_name;
    return program;
  }
  if (request.argv.empty()) return program;  // A node allocation that starts none of the user's programs.
  program.argv = request.argv;
  program.shown_name = program.argv.front();
  if (program.shown_name.find('/') != std::string::npos) {
    program.candidates = {program.shown_name};
  } else if (!program.shown_name.empty()) {
    for (const std::string_view folder : Split(SearchPath(request.environment), ':')) {
      program.candidates.push_back(folder.empty() ? program.shown_name
                                                  : std::string(folder) + "/" + program.shown_name);
    }
  }
  return program;
}

StartedJob StartJob(const StartPlan& plan) {
  const LaunchRequest& request = *plan.request;
  Start start = {.plan = &plan};
  start.limits = SystemLimitsOf(request.limits);
  start.argv = Pointers(plan.program->argv);
  start.environment = Pointers(request.environment);
  // A job submitted in the Slurm dialect gets its own pid, which was unknown when its environment was made.
  for (char*& entry : start.environment) {
    if (entry != nullptr && kTaskPid == entry) entry = start.pid_text.data();
  }
  static char shell[] = "/bin/sh";
  start.shell_argv = {shell, nullptr};
  start.shell_argv.insert(start.shell_argv.end(), start.argv.begin() + 1, start.argv.end());

  auto [ours, theirs] = plan.mounts != nullptr ? MakeSocketPair() : std::pair<Descriptor, Descriptor>();
  start.namespaces = theirs.get();
  int pid = -1;
  const StartOutcome outcome = plan.allocation_main != nullptr ? StartAllocation(start, pid) : StartProgram(start, pid);
  StartedJob job;
  if (pid < 0) {
    job.failure = std::string("cannot create a process for the job: ") + std::strerror(errno);
    job.failure_code = kMachineCannot;
    return job;
  }
  job.process = outcome.process;
  job.started = outcome.started;
  if (ours.is_open()) job.namespaces = ReceiveNamespaces(ours.get());
  job.failure = Describe(start, outcome, job.failure_code);
  if (job.failure.empty() && plan.is_another) job.process = IdentifyProcess(pid);
  if (job.failure.empty()) return job;
  ::waitpid(pid, nullptr, 0);
  job.process = {};
  return job;
}

}  // namespace divvy
