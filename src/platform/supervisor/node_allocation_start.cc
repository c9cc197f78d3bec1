#include "platform/supervisor/node_allocation_start.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/text.h"
#include "model/exit_codes.h"
#include "platform/os/unique_fd.h"
#include "platform/records/step_list_file.h"
#include "platform/supervisor/run_record.h"
#include "platform/supervisor/supervisor_watch.h"

extern char** environ;

namespace divvy {
namespace {

// The words before the program: executable, "internal-seat", steps, number of the node allocation, stop signal, time to
// wait, shown name, "--".
constexpr std::size_t kFixedWords = 8;
constexpr Duration kStepsTimeout = std::chrono::seconds(30);
constexpr int kStopTakesMs = 100;
constexpr int kLookEveryMs = 200;  // Poll interval if the kernel does not report events.
constexpr const char* kWithoutSteps = "the job's step process on this node has ended";
constexpr const char* kAnyPort = "0.0.0.0:0";

struct StepProcess {
  pid_t pid = -1;
  std::uint16_t port = 0;
  Descriptor end;  // A pidfd of the step process.

  bool IsAlive() const { return ::kill(pid, 0) == 0; }
};

class NodeAllocationProcess {
 public:
  NodeAllocationProcess(const std::vector<std::string>& words, const AllocationEnvironment& surroundings,
                        const GangStepsMain& main)
      : surroundings_(surroundings),
        steps_main_(main),
        divvy_(words[0]),
        steps_(words[2]),
        stop_signal_(static_cast<int>(ParseInteger(words[4]).value_or(SIGTERM))),
        timeout_(std::chrono::milliseconds(ParseInteger(words[5]).value_or(0))),
        shown_name_(words[6]),
        program_(words.begin() + kFixedWords, words.end()) {}

  int Run() {
    ::prctl(PR_SET_NAME, "divvy-seat");
    if (program_.empty()) HearSignals();
    if (!IsRunnable()) return code_;
    if (!Prepare() || !AwaitGo()) return code_;
    return program_.empty() ? Hold() : Become();
  }

 private:
  /// Reports the failure and returns false.
  bool Fail(const std::string& why, int code = kCannotRun) {
    code_ = code;
    Say("failure", why);
    std::fprintf(stderr, "divvy: %s\n", why.c_str());
    return false;
  }

  void Say(std::string_view key, std::string_view value) {
    RecordWriter line;
    line.Add(key, value);
    const std::string path = steps_ + ".seat", fresh = path + "~";
    ::unlink(fresh.c_str());
    const Descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    ShareWithDaemon(file.get());
    const std::string& text = line.text();
    if (!file.is_open() || ::write(file.get(), text.data(), text.size()) < 0 ||
        ::rename(fresh.c_str(), path.c_str()) != 0) {
      std::fprintf(stderr, "divvy: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    }
  }

  /// Reports a program that cannot be started before other nodes wait for it.
  bool IsRunnable() {
    if (program_.empty()) return true;
    const std::string& name = program_.front();
    const char* search = ::getenv("PATH");
    std::vector<std::string> candidates = {name};
    if (name.find('/') == std::string::npos) {
      candidates.clear();
      for (const std::string_view folder : Split(search == nullptr ? "/usr/local/bin:/usr/bin:/bin" : search, ':'))
        candidates.push_back(folder.empty() ? name : std::string(folder) + "/" + name);
    }
    int error = ENOENT;
    for (const std::string& path : candidates) {
      struct stat about = {};
      if (::stat(path.c_str(), &about) != 0 || S_ISDIR(about.st_mode)) continue;
      if (::access(path.c_str(), X_OK) == 0) return true;
      error = errno;
    }
    return CannotRun(error);
  }

  bool CannotRun(int error) {
    std::string what = "cannot run '" + shown_name_ + "'";
    if (shown_name_ != program_.front()) what += ": its interpreter '" + program_.front() + "'";
    return Fail(what + ": " + std::strerror(error), error == ENOENT || error == ENOTDIR ? kCannotFind : kCannotRun);
  }

  /// Reads the key, and starts the step process that needs it.
  bool Prepare() {
    std::string key;
    std::array<char, 256> part;
    ssize_t got = 0;
    while ((got = ::read(kAllocationKeyDescriptor, part.data(), part.size())) > 0 && key.size() < part.size())
      key.append(part.data(), static_cast<std::size_t>(got));
    if (const Status written = WriteGangKey(steps_, key); !written) return Fail(written.error().message);
    const auto started = StartGangSteps(steps_main_, steps_, kAnyPort, kStepsTimeout);
    if (!started) return Fail(started.error().message);
    steps_process_ = {started->pid, started->port,
                      Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, started->pid, 0)))};
    Say("port", std::to_string(steps_process_.port));
    ::close(kAllocationKeyDescriptor);  // Tells the supervisor that there is a report to read.
    return true;
  }

  bool AwaitGo() {
    const Descriptor changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    const std::string folder = steps_.substr(0, steps_.rfind('/'));
    const bool is_told =
        ::inotify_add_watch(changes.get(), folder.c_str(), IN_MOVED_TO) >= 0 && steps_process_.end.is_open();
    const Duration give_up = DueAfter(MonotonicNow(), timeout_);
    while (!WentAt(steps_)) {
      if (IsStopped()) EndByStop();
      if (!steps_process_.IsAlive()) return WithoutSteps();
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(give_up - MonotonicNow()).count();
      if (left <= 0) {
        const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(timeout_).count();
        return Fail("was ready, but got no message from the controller for " + std::to_string(minutes) +
                        " minutes; see the daemon's log for the job's other nodes",
                    1);
      }
      std::array<pollfd, 3> polled = {
          {{changes.get(), POLLIN, 0}, {steps_process_.end.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
      const auto wait = std::min<std::int64_t>(left, is_told ? 3'600'000 : kLookEveryMs);
      ::poll(polled.data(), polled.size(), static_cast<int>(wait));
      std::array<char, 4096> events;
      while (::read(changes.get(), events.data(), events.size()) > 0) {
      }
    }
    return TakeSurroundings();
  }

  bool TakeSurroundings() {
    std::string text;
    const Descriptor file(::open((steps_ + ".go").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::array<char, 16384> part;
    for (ssize_t got = 0; (got = ::read(file.get(), part.data(), part.size())) > 0;)
      text.append(part.data(), static_cast<std::size_t>(got));
    const auto gang = ReadGangText(text);
    if (!gang) return Fail(gang.error().message, 1);
    if (const Status written = WriteMpiFiles(steps_, *gang, divvy_); !written) return Fail(written.error().message, 1);
    if (!surroundings_) return true;
    for (const std::string& entry : surroundings_(*gang, steps_)) {
      const std::size_t equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 0);
    }
    return true;
  }

  int Become() {
    std::vector<char*> argv;
    for (std::string& word : program_) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::prctl(PR_SET_NAME, "divvy");
    ::execvp(argv[0], argv.data());
    CannotRun(errno);
    return code_;
  }

  /// Waits for the step process. It also gets the signals that go to the whole job, and exits when its tasks have
  /// ended.
  int Hold() {
    while (steps_process_.IsAlive()) {
      std::array<pollfd, 2> polled = {{{signals_.get(), POLLIN, 0}, {steps_process_.end.get(), POLLIN, 0}}};
      ::poll(polled.data(), polled.size(), steps_process_.end.is_open() ? -1 : kLookEveryMs);
      if (polled[1].revents != 0) break;
      if (IsStopped()) ::kill(steps_process_.pid, SIGTERM);
    }
    if (!IsStopped() && !WasKilled()) AwaitStop();
    if (IsStopped()) return 0;
    Fail(kWithoutSteps, 1);
    return code_;
  }

  /// A step process that exits removes its socket; if the socket is still there, it was killed. A stop that arrives
  /// right after that is a consequence and not the cause: the job is stopped because its tasks here are gone.
  bool WasKilled() const { return ::access((steps_ + ".sock").c_str(), F_OK) == 0; }

  /// A stop of the job also ends the step process, perhaps a moment before us.
  void AwaitStop() {
    pollfd one = {signals_.get(), POLLIN, 0};
    ::poll(&one, 1, kStopTakesMs);
  }

  bool WithoutSteps() {
    AwaitStop();
    if (IsStopped()) EndByStop();
    return Fail(kWithoutSteps, 1);
  }

  /// Signals to the whole job are for the tasks of its steps. They must not end this process.
  void HearSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    signals_.Reset(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  bool IsStopped() {
    signalfd_siginfo info = {};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGTERM || signal == stop_signal_) stopped_by_ = signal;
    }
    return stopped_by_ != 0;
  }

  /// Ends like a process that does not handle the signal.
  [[noreturn]] void EndByStop() {
    ::signal(stopped_by_, SIG_DFL);
    ::raise(stopped_by_);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::_exit(128 + stopped_by_);
  }

  const AllocationEnvironment& surroundings_;
  const GangStepsMain& steps_main_;
  std::string divvy_;
  std::string steps_;
  int stop_signal_;
  Duration timeout_;
  std::string shown_name_;
  std::vector<std::string> program_;
  StepProcess steps_process_;
  Descriptor signals_;  // Used if it has no program.
  int stopped_by_ = 0;
  int code_ = 1;
};

}  // namespace

JobProgram NodeAllocationProgram(const LaunchAllocation& allocation, const std::string& steps, int stop_signal,
                                 JobProgram program) {
  JobProgram own;
  const auto within = std::chrono::duration_cast<std::chrono::milliseconds>(allocation.go_within).count();
  own.argv = {
      allocation.starter,     "internal-seat",    steps, std::to_string(allocation.index), std::to_string(stop_signal),
      std::to_string(within), program.shown_name, "--"};
  own.argv.insert(own.argv.end(), program.argv.begin(), program.argv.end());
  own.candidates = {allocation.starter};
  own.shown_name = allocation.starter;
  return own;
}

int RunNodeAllocation(const std::vector<std::string>& words, const AllocationEnvironment& surroundings,
                      const GangStepsMain& steps) {
  if (words.size() < kFixedWords || words[kFixedWords - 1] != "--") return 2;
  return NodeAllocationProcess(words, surroundings, steps).Run();
}

}  // namespace divvy
