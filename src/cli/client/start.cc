#include "cli/client/start.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/client/command.h"
#include "cli/client/progress_indicator.h"
#include "platform/os/spawn.h"
#include "platform/os/unique_fd.h"

extern "C" char** environ;

namespace divvy::cli {
namespace {

// Startup recovers from the store and detects GPUs; a faulty driver may be slow.
constexpr int kStartMostMs = 60'000;
// How long to wait for a process that has reported a failed start; it only has to close its files.
constexpr int kEndMostMs = 10'000;

/// Reads the report of the starting process: "ready" or an error. Returns "" if it ended without a report.
Result<std::string> AwaitReady(int fd, const std::string& who) {
  std::string text;
  pollfd poll{fd, POLLIN, 0};
  while (true) {
    const int ready = ::poll(&poll, 1, kStartMostMs);
    if (ready == 0) return Error{ErrorCode::kTimedOut, who + " was not ready within a minute; see its log"};
    if (ready < 0 && errno == EINTR) continue;
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.ends_with('\n')) return text;
  }
}

std::vector<char*> PointersTo(std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return argv;
}

bool HasTerminal() {
  const Descriptor own(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  return own.is_open() || ::isatty(STDIN_FILENO) != 0 || ::isatty(STDOUT_FILENO) != 0 || ::isatty(STDERR_FILENO) != 0;
}

/// Prints the whole lines of `text` with control characters escaped and keeps the rest. Prints everything if a line is
/// too long.
void ShowLines(std::string& text, int to) {
  constexpr std::size_t kLineMost = 4096;
  for (std::size_t end = 0; !text.empty(); text.erase(0, end)) {
    end = std::min(text.find('\n'), text.size() < kLineMost ? std::string::npos : kLineMost);
    if (end == std::string::npos) return;
    const std::string line = WithoutControls(std::string_view(text).substr(0, end)) + "\n";
    static_cast<void>(!::write(to, line.data(), line.size()));
    end += text[end] == '\n' ? 1 : 0;
  }
}

/// Prints the output that arrives from `said`, forwards signals to the process, and exits with its status.
[[noreturn]] void StandInFor(pid_t process, Descriptor said) {
  const int to = ::isatty(STDERR_FILENO) != 0 ? STDERR_FILENO : STDOUT_FILENO;
  sigset_t passed;
  ::sigemptyset(&passed);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&passed, signal);
  ::sigprocmask(SIG_BLOCK, &passed, nullptr);
  const Descriptor signals(::signalfd(-1, &passed, SFD_CLOEXEC));
  const Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  ::fcntl(said.get(), F_SETFL, O_NONBLOCK);
  std::string text;
  for (bool has_ended = false; !has_ended;) {
    std::array<pollfd, 3> polled = {{{said.get(), POLLIN, 0}, {signals.get(), POLLIN, 0}, {end.get(), POLLIN, 0}}};
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) break;
    has_ended = polled[2].revents != 0;  // Its last output is in the pipe then.
    char bytes[4096];
    ssize_t got = 0;
    while ((got = ::read(said.get(), bytes, sizeof bytes)) > 0) {
      text.append(bytes, static_cast<std::size_t>(got));
      ShowLines(text, to);
    }
    if (got == 0) said.Reset();
    signalfd_siginfo signal = {};
    if (polled[1].revents != 0 && ::read(signals.get(), &signal, sizeof signal) == sizeof signal)
      ::kill(process, static_cast<int>(signal.ssi_signo));
  }
  if (!text.empty()) ShowLines(text += '\n', to);
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/// Detaches this process from root's terminal. A compromised daemon could otherwise type into root's shell there. The
/// original process stays in the terminal on its behalf.
Status LeaveTerminal() {
  if (!HasTerminal()) return {};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Internal("cannot make a pipe: " + std::string(std::strerror(errno)));
  Descriptor said(ends[0]), says(ends[1]);
  const pid_t process = ::fork();
  if (process < 0) return Internal("cannot start a process: " + std::string(std::strerror(errno)));
  if (process > 0) {
    says.Reset();
    StandInFor(process, std::move(said));
  }
  ::setsid();
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (::isatty(STDIN_FILENO) != 0) ::dup2(nothing.get(), STDIN_FILENO);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (::isatty(fd) != 0) ::dup2(says.get(), fd);
  }
  for (int fd = STDERR_FILENO + 1; fd < 256; ++fd) {
    if (::isatty(fd) != 0) ::close(fd);
  }
  return {};
}

}  // namespace

void AwaitEnd(pid_t pid) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open()) return;
  pollfd end{process.get(), POLLIN, 0};
  while (::poll(&end, 1, kEndMostMs) < 0 && errno == EINTR) {
  }
}

int StartInPlace(std::vector<std::string> arguments) {
  ::execv("/proc/self/exe", PointersTo(arguments).data());
  return Fail(Internal("cannot start: " + std::string(std::strerror(errno))));
}

Status StartDetached(std::vector<std::string> arguments, const std::string& who) {
  arguments.emplace_back("--detached");
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return Internal("cannot make a pipe: " + std::string(std::strerror(errno)));
  Spawn spawn(Spawn::Apart::kSession);
  // The started process writes its messages to the pipe until it has opened its log.
  spawn.OpenNull(STDIN_FILENO).OpenNull(STDOUT_FILENO).Give(STDERR_FILENO, ready[1]);
  const auto pid = spawn.Start("/proc/self/exe", arguments);
  ::close(ready[1]);
  if (!pid) {
    ::close(ready[0]);
    return Internal("cannot start " + who + ": " + pid.error().message);
  }
  std::optional<ProgressIndicator> progress(std::in_place, "starting " + who);
  const auto said = AwaitReady(ready[0], who);
  progress.reset();
  ::close(ready[0]);
  if (!said) return said.error();
  if (*said == "ready\n") return {};
  AwaitEnd(*pid);
  std::string text(Trim(*said));
  if (text.starts_with("divvy: ")) text.erase(0, 7);
  return FailedPrecondition(text.empty() ? who + " ended before it was ready; see its log" : text);
}

Status StartLauncher(const LauncherWishes& wishes) {
  std::vector<std::string> launcher = {"divvy", "internal-launcher-service", "--leaves-when-idle"};
  const auto add = [&launcher](const char* option, const std::string& value) {
    if (!value.empty()) launcher.insert(launcher.end(), {option, value});
  };
  add("--emulate", wishes.emulate);
  add("--emulate-as", wishes.emulate_as);
  add("--controllers-key", wishes.controllers_key);
  return StartDetached(std::move(launcher), "the launcher");
}

Status LeaveRootToLauncher(const std::string& what, const LauncherWishes& wishes) {
  const passwd* user = ::getpwnam("divvy");
  if (::geteuid() != 0 && user != nullptr && user->pw_uid == ::geteuid()) return {};
  if (::geteuid() != 0) {
    const bool is_agent = what == "agent";
    return PermissionDenied("the " + what + " of this machine must be started by root: systemctl start " +
                            (is_agent ? "divvy-agent, or divvy agent" : "divvy, or divvy up") +
                            " as root. To run your own " + what + ", set DIVVY_HOME to an empty directory");
  }
  DIVVY_CHECK(StartLauncher(wishes));
  DIVVY_CHECK(LeaveTerminal());
  // The daemon talks to untrusted peers, so it gets only these variables of root's environment.
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool is_wanted = name == "PATH" || name == "LANG" || name == "TZ" || name == "TMPDIR" ||
                           name.starts_with("LC_") || name.starts_with("DIVVY_") || name == "SSL_CERT_FILE";
    if (is_wanted) kept.emplace_back(variable);
  }
  ::clearenv();
  for (const std::string& variable : kept)
    ::setenv(variable.substr(0, variable.find('=')).c_str(), variable.substr(variable.find('=') + 1).c_str(), 1);
  user = ::getpwnam("divvy");
  if (user == nullptr || user->pw_uid == 0) return Internal("the launcher has not created the user divvy");
  if (::initgroups(user->pw_name, user->pw_gid) != 0 || ::setresgid(user->pw_gid, user->pw_gid, user->pw_gid) != 0 ||
      ::setresuid(user->pw_uid, user->pw_uid, user->pw_uid) != 0)
    return Internal("cannot become user divvy: " + std::string(std::strerror(errno)));
  return {};
}

}  // namespace divvy::cli
