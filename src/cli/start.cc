#include "cli/start.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/text.h"
#include "cli/command.h"
#include "platform/launch_descriptor.h"

extern char** environ;

namespace divvy::cli {
namespace {

// A start recovers from the store and looks for GPUs; a sick driver may take its time.
constexpr int kStartMostMs = 60'000;
// Who has said that it does not start has only to close its files.
constexpr int kEndMostMs = 10'000;

/// Reads what the starting process says: "ready" or an error. Empty text: it ended without a word.
Result<std::string> AwaitReady(int fd, const std::string& who) {
  std::string text;
  pollfd poll{fd, POLLIN, 0};
  while (true) {
    const int ready = ::poll(&poll, 1, kStartMostMs);
    if (ready == 0) return Error{ErrorCode::kTimedOut, who + " was not ready within a minute; its log says more"};
    if (ready < 0 && errno == EINTR) continue;
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.ends_with('\n')) return text;
  }
}

/// Who did not start holds its lock until it has ended: whoever is told so early and tries again would find it in the
/// way.
void AwaitEnd(pid_t pid) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open()) return;
  pollfd end{process.get(), POLLIN, 0};
  while (::poll(&end, 1, kEndMostMs) < 0 && errno == EINTR) {
  }
}

std::vector<char*> PointersTo(std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return argv;
}

}  // namespace

int StartInPlace(std::vector<std::string> arguments) {
  ::execv("/proc/self/exe", PointersTo(arguments).data());
  return Fail(Internal("cannot start: " + std::string(std::strerror(errno))));
}

Status StartDetached(std::vector<std::string> arguments, const std::string& who) {
  arguments.emplace_back("--detached");
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return Internal("cannot make a pipe: " + std::string(std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  // Its words before it has its log go to the pipe.
  ::posix_spawn_file_actions_adddup2(&actions, ready[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, PointersTo(arguments).data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ready[1]);
  if (error != 0) return Internal("cannot start " + who + ": " + std::strerror(error));
  const auto said = AwaitReady(ready[0], who);
  ::close(ready[0]);
  if (!said) return said.error();
  if (*said == "ready\n") return {};
  AwaitEnd(pid);
  std::string text(Trim(*said));
  if (text.starts_with("divvy: ")) text.erase(0, 7);
  return FailedPrecondition(text.empty() ? who + " ended before it was ready; its log says more" : text);
}

}  // namespace divvy::cli
