#include "platform/os/hook_program.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "platform/os/process_tree.h"
#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

constexpr std::size_t kMostOutput = 400;
constexpr int kLook = 20;  // Milliseconds between two checks whether the program has ended.

struct Pipe {
  Descriptor read, write;
};
Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Internal(std::string("cannot create a pipe: ") + std::strerror(errno));
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Runs in the forked process. Reports through `failure` why the program could not be executed.
[[noreturn]] void Execute(const HookRun& run, const Descriptor& in, const Descriptor& out, const Descriptor& failure) {
  ::setsid();
  ::dup2(in.get(), 0);
  ::dup2(out.get(), 1);
  ::dup2(out.get(), 2);
  if (run.directory.empty() || ::chdir(run.directory.c_str()) != 0) static_cast<void>(!::chdir("/"));
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const auto words = Pointers(run.words);
  const auto environment = Pointers(run.environment);
  ::execve(words[0], words.data(), environment.data());
  const int error = errno;
  static_cast<void>(!::write(failure.get(), &error, sizeof error));
  ::_exit(127);
}

/// Writes the program's input and reads its output.
class Talk {
 public:
  Talk(Descriptor in, Descriptor out, std::string_view input, HookEnd& end)
      : in_(std::move(in)), out_(std::move(out)), input_(input), end_(end) {
    for (const Descriptor* fd : {&in_, &out_}) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
    if (input_.empty()) in_.Reset();
  }
  void Step(int timeout) {
    std::array<pollfd, 2> waited = {pollfd{in_.get(), POLLOUT, 0}, pollfd{out_.get(), POLLIN, 0}};
    if (::poll(waited.data(), waited.size(), timeout) <= 0) return;
    if (waited[0].revents != 0) Write();
    if (waited[1].revents != 0) Read();
  }
  /// Reads the output that is already available.
  void Drain() {
    for (int i = 0; i < 64 && out_.is_open() && Read(); ++i) {
    }
  }

 private:
  void Write() {
    const ssize_t put = ::write(in_.get(), input_.data(), input_.size());
    if (put > 0) input_.remove_prefix(static_cast<std::size_t>(put));
    if (input_.empty() || (put < 0 && errno != EAGAIN && errno != EINTR)) in_.Reset();
  }
  bool Read() {
    std::array<char, 4096> room{};
    const ssize_t got = ::read(out_.get(), room.data(), room.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) {
      out_.Reset();
      return false;
    }
    end_.output.append(room.data(), static_cast<std::size_t>(got));
    if (end_.output.size() > kMostOutput) end_.output.erase(0, end_.output.size() - kMostOutput);
    return true;
  }

  Descriptor in_, out_;
  std::string_view input_;
  HookEnd& end_;
};

/// Kills and reaps all remaining descendants. As a subreaper we are the parent of orphaned ones.
void EndAll() {
  for (;;) {
    SignalDescendants(::getpid(), SIGKILL);
    if (::waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

}  // namespace

Result<HookEnd> RunHook(const HookRun& run) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  DIVVY_TRY(Pipe in, MakePipe());
  DIVVY_TRY(Pipe out, MakePipe());
  DIVVY_TRY(Pipe failure, MakePipe());
  const pid_t child = ::fork();
  if (child < 0) return Internal(std::string("cannot create a process: ") + std::strerror(errno));
  if (child == 0) Execute(run, in.read, out.write, failure.write);
  in.read.Reset();
  out.write.Reset();
  failure.write.Reset();
  int error = 0;
  if (::read(failure.read.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(child, nullptr, 0);
    const std::string text = run.words.front() + ": " + std::strerror(error);
    return error == ENOENT ? NotFound(text) : PermissionDenied(text);
  }
  HookEnd end;
  Talk talk(std::move(in.write), std::move(out.read), run.input, end);
  const auto deadline = std::chrono::steady_clock::now() + run.time_limit;
  int status = 0;
  for (;;) {
    talk.Step(kLook);
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) break;
    if (std::chrono::steady_clock::now() >= deadline) {
      end.was_too_slow = true;
      break;
    }
  }
  talk.Drain();
  if (end.was_too_slow || !run.may_leave_processes) EndAll();
  end.code = end.was_too_slow ? 128 + SIGKILL : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return end;
}

Result<HookUser> BecomeUser(const std::string& name, std::int64_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> room(64 << 10);
  if (::getpwnam_r(name.c_str(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr)
    return NotFound("this machine has no user " + name);
  if (uid >= 0 && static_cast<std::int64_t>(found->pw_uid) != uid)
    return PermissionDenied("user " + name + " has the uid " + std::to_string(found->pw_uid) + " now, but had " +
                            std::to_string(uid));
  const HookUser user{found->pw_name, found->pw_dir, found->pw_shell};
  if (::geteuid() == found->pw_uid && ::getuid() == found->pw_uid) return user;
  if (::initgroups(found->pw_name, found->pw_gid) != 0 ||
      ::setresgid(found->pw_gid, found->pw_gid, found->pw_gid) != 0 ||
      ::setresuid(found->pw_uid, found->pw_uid, found->pw_uid) != 0)
    return PermissionDenied("this daemon, of uid " + std::to_string(::geteuid()) + ", cannot act as " + name);
  return user;
}

}  // namespace divvy
