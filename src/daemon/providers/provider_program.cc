#include "daemon/providers/provider_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/text.h"
#include "daemon/runtime/await_readable.h"
#include "platform/os/spawn.h"
#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

namespace asio = boost::asio;
constexpr int kTimedOut = 124;  // The exit code of timeout(1).
constexpr int kNotStarted = 127;
/// The guard ends this long after its deadline at the latest.
constexpr std::chrono::seconds kGrace{10};

timespec MonotonicNow() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now;
}

[[noreturn]] void Become(const std::vector<std::string>& words, const sigset_t& mask, pid_t guard) {
  ::setpgid(0, 0);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  // The program does not outlive a guard that is killed. Processes that it started may.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != guard) ::_exit(kNotStarted);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // A core file would contain credentials.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  ::dprintf(STDERR_FILENO, "cannot run %s: %s\n", pointers.front(), std::strerror(errno));
  ::_exit(kNotStarted);
}

/// Read with a deadline of seconds; returns the child's status, or nothing if it did not end in time.
std::optional<int> AwaitEnd(pid_t child, std::int64_t seconds, const sigset_t& signals) {
  const std::int64_t end = MonotonicNow().tv_sec + seconds;
  while (true) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return status;
    const std::int64_t left = end - MonotonicNow().tv_sec;
    if (left <= 0) return std::nullopt;
    const timespec wait{left, 0};
    if (::sigtimedwait(&signals, nullptr, &wait) == SIGTERM) return std::nullopt;
  }
}

}  // namespace

int ProviderMain(const std::vector<std::string>& words) {
  const auto parent = words.size() < 3 ? std::nullopt : ParseInteger(words[0]);
  const auto seconds = words.size() < 3 ? std::nullopt : ParseInteger(words[1]);
  if (!parent || !seconds) return 2;
  sigset_t signals, before;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGCHLD);
  ::sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  if (::getppid() != *parent) return kTimedOut;  // The daemon has died already.
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return kNotStarted;
  if (child == 0) Become({words.begin() + 2, words.end()}, before, self);
  ::setpgid(child, child);  // Parent and child both call it, so that it has taken effect whichever of them runs first.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
  const std::optional<int> status = AwaitEnd(child, *seconds, signals);
  ::kill(-child, SIGKILL);
  if (!status) {
    ::waitpid(child, nullptr, 0);
    return kTimedOut;
  }
  return WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
}

struct ProviderRunner::Child {
  explicit Child(asio::io_context& loop) : ended(loop), output(loop), complaint(loop), limit(loop) {}

  asio::posix::stream_descriptor ended;  // Its pidfd.
  asio::posix::stream_descriptor output;
  asio::posix::stream_descriptor complaint;
  asio::steady_timer limit;
  pid_t pid = 0;
  std::string program;
  std::string out, err;
  std::array<char, 4096> out_buffer{}, err_buffer{};
  std::string failure;  // Why it was ended.
  int readers = 2;      // Reads that are under way. They may have data that is not in `out` or `err` yet.
  bool has_ended = false;
  Duration timeout{0};
  Done done;
};

ProviderRunner::~ProviderRunner() {
  for (auto& [pid, child] : children_) {
    ::kill(pid, SIGTERM);
    boost::system::error_code ignored;
    child->ended.close(ignored);
    child->output.close(ignored);
    child->complaint.close(ignored);
    child->limit.cancel();
  }
  children_.clear();
}

void ProviderRunner::Run(const ProviderProgram& program, Done done) {
  const auto fail = [this, &done](const std::string& why) {
    asio::post(loop_, [done = std::move(done), why] { done(Internal(why)); });
  };
  // A file in memory, which the program can also open as /dev/stdin.
  Descriptor input(::memfd_create("order", MFD_CLOEXEC));
  std::array<int, 2> out{-1, -1}, err{-1, -1};
  const bool has_pipes = input.is_open() && ::pipe2(out.data(), O_CLOEXEC) == 0 && ::pipe2(err.data(), O_CLOEXEC) == 0;
  Descriptor out_ours(out[0]), out_theirs(out[1]), err_ours(err[0]), err_theirs(err[1]);
  if (!has_pipes) return fail(std::string("no descriptor is left: ") + std::strerror(errno));
  for (std::size_t at = 0; at < program.input.size();) {
    const ssize_t written = ::write(input.get(), program.input.data() + at, program.input.size() - at);
    if (written <= 0) return fail(std::string("cannot pass its input on: ") + std::strerror(errno));
    at += static_cast<std::size_t>(written);
  }
  ::lseek(input.get(), 0, SEEK_SET);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(program.timeout);
  std::vector<std::string> words = {"divvy", "internal-provider", std::to_string(::getpid()),
                                    std::to_string(seconds.count())};
  words.insert(words.end(), program.words.begin(), program.words.end());
  Spawn spawn(Spawn::Apart::kGroup);
  // The daemon ignores SIGPIPE; a program should not.
  spawn.Give(0, input.get()).Give(1, out_theirs.get()).Give(2, err_theirs.get()).CloseRest().Reset(SIGPIPE);
  const auto pid = spawn.Start(divvy_, words, program.environment);
  if (!pid) return fail("cannot start " + program.words.front() + ": " + pid.error().message);
  auto child = std::make_shared<Child>(loop_);
  const auto watch = [](asio::posix::stream_descriptor& stream, Descriptor& descriptor) {
    boost::system::error_code error;
    if (descriptor.is_open()) stream.assign(descriptor.get(), error);
    if (!descriptor.is_open() || error) return false;
    descriptor.Release();
    return true;
  };
  Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
  if (!watch(child->ended, ended) || !watch(child->output, out_ours) || !watch(child->complaint, err_ours)) {
    // The guard kills its program and ends at once.
    ::kill(*pid, SIGTERM);
    while (::waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) continue;
    return fail("cannot watch " + program.words.front() + ": no descriptor or memory is left");
  }
  child->pid = *pid;
  child->program = program.words.front();
  child->timeout = program.timeout;
  child->done = std::move(done);
  children_.emplace(*pid, child);
  child->output.non_blocking(true);
  child->complaint.non_blocking(true);
  Read(child, true);
  Read(child, false);
  child->limit.expires_after(seconds + kGrace);
  child->limit.async_wait([child](const boost::system::error_code& error) {
    if (!error) ::kill(child->pid, SIGKILL);
  });
  // Shares the ownership of `child`, which has the descriptor.
  AwaitReadable(std::shared_ptr<asio::posix::stream_descriptor>(child, &child->ended), [this, child] {
    child->has_ended = true;
    boost::system::error_code ignored;
    child->output.cancel(ignored);
    child->complaint.cancel(ignored);
    if (child->readers == 0) Finish(child);
  });
}

void ProviderRunner::Read(const std::shared_ptr<Child>& child, bool is_output) {
  auto& stream = is_output ? child->output : child->complaint;
  auto& buffer = is_output ? child->out_buffer : child->err_buffer;
  stream.async_read_some(
      asio::buffer(buffer), [this, child, is_output](const boost::system::error_code& error, std::size_t size) {
        std::string& text = is_output ? child->out : child->err;
        const std::size_t most = is_output ? kMostOutput : kMostComplaint;
        text.append((is_output ? child->out_buffer : child->err_buffer).data(), std::min(size, most - text.size()));
        // Complaints beyond the limit are dropped; too much output is an error.
        if (is_output && text.size() == most && child->failure.empty()) {
          child->failure = "it printed more than " + std::to_string(kMostOutput >> 20) + " MiB";
          ::kill(child->pid, SIGTERM);
        }
        if (!error && !child->has_ended) return Read(child, is_output);
        if (--child->readers == 0 && child->has_ended && children_.contains(child->pid)) Finish(child);
      });
}

// The guard has ended, and no read is under way. The pipes have the rest of the output; a process that was left behind
// may keep them open.
void ProviderRunner::Finish(const std::shared_ptr<Child>& child) {
  int status = 0;
  ::waitpid(child->pid, &status, WNOHANG);
  children_.erase(child->pid);
  child->limit.cancel();
  const auto drain = [](asio::posix::stream_descriptor& stream, std::string& text, std::size_t most) {
    std::array<char, 4096> buffer;
    while (text.size() < most) {
      const ssize_t size = ::read(stream.native_handle(), buffer.data(), std::min(buffer.size(), most - text.size()));
      if (size <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(size));
    }
    boost::system::error_code ignored;
    stream.close(ignored);
  };
  drain(child->output, child->out, kMostOutput);
  drain(child->complaint, child->err, kMostComplaint);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::string why = child->failure;
  if (why.empty() && child->out.size() >= kMostOutput) why = "it printed more than 1 MiB";
  if (why.empty() && code == kTimedOut)
    why = "it did not end within " + std::to_string(child->timeout / std::chrono::seconds(1)) + " s and was killed";
  if (why.empty() && code != 0) why = "it failed with exit code " + std::to_string(code);
  const std::string first = child->err.substr(0, child->err.find('\n'));
  if (!why.empty() && !first.empty()) why += ": " + OneLine(first);
  child->done(why.empty() ? Result<std::string>(std::move(child->out)) : Internal(why));
}

}  // namespace divvy
