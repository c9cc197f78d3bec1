#include "cli/shims/slurm_steps.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "base/index_ranges.h"

namespace divvy::cli::slurm {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kOutsiderGrace = std::chrono::milliseconds(500);
constexpr auto kKillWait = std::chrono::seconds(30);  // Slurm's KillWait.

struct LaterSignal {
  int signal = 0;
  SteadyClock::time_point at;
};

/// One pipe from a task, read line by line so that lines of different tasks never mix.
struct LabelledStream {
  int fd = -1;
  int target = STDOUT_FILENO;
  std::string label;
  std::string rest;  // A line that has no end yet.
};

void WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;  // Nobody reads any more: the task's output goes nowhere, and the task goes on.
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

class StepRunner {
 public:
  explicit StepRunner(const StepPlan& plan)
      : plan_(plan), pids_(plan.tasks.size(), -1), codes_(plan.tasks.size(), -1) {}

  int Run() {
    BlockSignals();
    for (std::size_t rank = 0; rank < plan_.tasks.size(); ++rank) Spawn(rank);
    if (has_spawn_failed_) SignalAll(SIGTERM);
    while (alive_ > 0 || !streams_.empty()) {
      // A task's descendant may keep its output open after the task has ended; Slurm does not wait for it either.
      if (alive_ == 0) {
        Drain();
        break;
      }
      Wait();
    }
    Report();
    ::close(signals_);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    const int highest = *std::ranges::max_element(codes_);
    return std::max(highest, 0);
  }

 private:
  void BlockSignals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
    signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  void Spawn(std::size_t rank) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    sigset_t defaults;
    ::sigemptyset(&defaults);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE})
      ::sigaddset(&defaults, signal);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setsigmask(&attributes, &before_);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    std::vector<int> to_close;
    if (PlaceStreams(rank, actions, to_close)) {
      if (!plan_.directory.empty()) ::posix_spawn_file_actions_addchdir_np(&actions, plan_.directory.c_str());
      const StepTask& task = plan_.tasks[rank];
      std::vector<char*> argv;
      for (const std::string& word : task.command) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      std::vector<char*> environment;
      for (const std::string& entry : task.environment) environment.push_back(const_cast<char*>(entry.c_str()));
      environment.push_back(nullptr);
      const int failure = ::posix_spawnp(&pids_[rank], argv[0], &actions, &attributes, argv.data(), environment.data());
      if (failure == 0) {
        ++alive_;
      } else {
        pids_[rank] = -1;
        Fail(rank, "execve(): " + task.command.front() + ": " + std::strerror(failure), failure == EACCES ? 126 : 127);
      }
    }
    for (const int fd : to_close) ::close(fd);
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }

  void Fail(std::size_t rank, const std::string& message, int code) {
    std::fprintf(stderr, "srun: error: %s: task %zu: %s\n", plan_.hostname.c_str(), rank, message.c_str());
    codes_[rank] = code;
    has_spawn_failed_ = true;
  }

  /// Opens what the task reads and writes. False: told and counted as failed.
  bool PlaceStreams(std::size_t rank, posix_spawn_file_actions_t& actions, std::vector<int>& to_close) {
    return PlaceInput(rank, actions, to_close) && PlaceOutput(rank, plan_.output, STDOUT_FILENO, actions, to_close) &&
           PlaceError(rank, actions, to_close);
  }

  bool Open(std::size_t rank, const std::string& path, int flags, int target, posix_spawn_file_actions_t& actions,
            std::vector<int>& to_close) {
    const std::string full = path.front() == '/' || plan_.directory.empty() ? path : plan_.directory + "/" + path;
    const int fd = ::open(full.c_str(), flags | O_CLOEXEC, 0666);
    if (fd < 0) {
      Fail(rank, "cannot open " + full + ": " + std::strerror(errno), 1);
      return false;
    }
    to_close.push_back(fd);
    ::posix_spawn_file_actions_adddup2(&actions, fd, target);
    return true;
  }

  bool PlaceInput(std::size_t rank, posix_spawn_file_actions_t& actions, std::vector<int>& to_close) {
    const std::string& input = plan_.input;
    const bool is_rank =
        !input.empty() && std::ranges::all_of(input, [](unsigned char c) { return std::isdigit(c) != 0; });
    // One terminal cannot be read by all: task 0 has it, or the rank that --input names.
    const bool has_own = (input.empty() || input == "all") ? rank == 0 : is_rank && input == std::to_string(rank);
    if (has_own) return true;
    const std::string path = input.empty() || input == "all" || input == "none" || is_rank
                                 ? "/dev/null"
                                 : FillStepPattern(input, plan_, rank);
    return Open(rank, path, O_RDONLY, STDIN_FILENO, actions, to_close);
  }

  bool PlaceOutput(std::size_t rank, const std::string& output, int target, posix_spawn_file_actions_t& actions,
                   std::vector<int>& to_close) {
    const bool is_rank =
        !output.empty() && std::ranges::all_of(output, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (output == "none" || (is_rank && output != std::to_string(rank))) {
      return Open(rank, "/dev/null", O_WRONLY, target, actions, to_close);
    }
    if (output.empty() || output == "all" || is_rank) {
      if (plan_.has_labels) AddPipe(rank, target, actions, to_close);
      return true;
    }
    const std::string path = FillStepPattern(output, plan_, rank);
    // Tasks that share a file append, so that none overwrites another; the first one empties it.
    int flags = O_WRONLY | O_CREAT | O_APPEND;
    if (!plan_.appends && std::ranges::find(emptied_, path) == emptied_.end()) {
      flags |= O_TRUNC;
      emptied_.push_back(path);
    }
    return Open(rank, path, flags, target, actions, to_close);
  }

  bool PlaceError(std::size_t rank, posix_spawn_file_actions_t& actions, std::vector<int>& to_close) {
    if (!plan_.error.empty()) return PlaceOutput(rank, plan_.error, STDERR_FILENO, actions, to_close);
    if (plan_.output.empty() || plan_.output == "all") {
      if (plan_.has_labels) AddPipe(rank, STDERR_FILENO, actions, to_close);
      return true;
    }
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    return true;
  }

  void AddPipe(std::size_t rank, int target, posix_spawn_file_actions_t& actions, std::vector<int>& to_close) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;  // Unlabelled then, rather than lost.
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], target);
    to_close.push_back(ends[1]);
    const std::size_t width = std::to_string(plan_.tasks.size() - 1).size();
    const std::string number = std::to_string(rank);
    streams_.push_back({ends[0], target, std::string(width - number.size(), ' ') + number + ": ", ""});
  }

  void Wait() {
    std::vector<pollfd> polled = {{signals_, POLLIN, 0}};
    for (const LabelledStream& stream : streams_) polled.push_back({stream.fd, POLLIN, 0});
    int timeout = -1;
    if (later_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(later_->at - SteadyClock::now());
      timeout = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    }
    if (::poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR) return;
    for (std::size_t i = streams_.size(); i-- > 0;) {
      if (polled[i + 1].revents != 0 && !ReadStream(streams_[i])) {
        ::close(streams_[i].fd);
        streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    ReadSignals();
    Reap();
    if (later_ && SteadyClock::now() >= later_->at) {
      SignalAll(later_->signal);
      later_.reset();
    }
  }

  /// False at the end of the stream.
  bool ReadStream(LabelledStream& stream) {
    std::array<char, 16'384> buffer{};
    const ssize_t got = ::read(stream.fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (got > 0) stream.rest.append(buffer.data(), static_cast<std::size_t>(got));
    std::string text;
    std::size_t start = 0;
    for (std::size_t end = stream.rest.find('\n'); end != std::string::npos; end = stream.rest.find('\n', start)) {
      text += stream.label + stream.rest.substr(start, end - start + 1);
      start = end + 1;
    }
    stream.rest.erase(0, start);
    if (got <= 0 && !stream.rest.empty()) {
      text += stream.label + stream.rest + "\n";
      stream.rest.clear();
    }
    WriteAll(stream.target, text);
    return got > 0;
  }

  void Drain() {
    for (LabelledStream& stream : streams_) {
      const int flags = ::fcntl(stream.fd, F_GETFL);
      ::fcntl(stream.fd, F_SETFL, flags | O_NONBLOCK);
      for (pollfd one{stream.fd, POLLIN, 0}; ::poll(&one, 1, 0) > 0 && ReadStream(stream);) {
      }
      if (!stream.rest.empty()) WriteAll(stream.target, stream.label + stream.rest + "\n");
      ::close(stream.fd);
    }
    streams_.clear();
  }

  void ReadSignals() {
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      // Who signals from inside the job means this step. A sender outside (the daemon ending the job, a terminal's
      // Ctrl-C) reaches the tasks as well: they get it from us only if they are still there a moment later.
      const bool is_terminal = info.ssi_code == SI_KERNEL;
      const bool is_inside = !is_terminal && ::getsid(static_cast<pid_t>(info.ssi_pid)) == ::getsid(0);
      if (is_inside) {
        SignalAll(signal);
      } else if (!is_terminal && (signal == SIGTERM || signal == SIGINT)) {
        later_ = {signal, SteadyClock::now() + kOutsiderGrace};
      }
    }
  }

  void Reap() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      if (pids_[rank] <= 0) continue;
      int status = 0;
      if (::waitpid(pids_[rank], &status, WNOHANG) != pids_[rank]) continue;
      pids_[rank] = -1;
      --alive_;
      codes_[rank] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (codes_[rank] == 0) continue;
      endings_[codes_[rank] > 128 && WIFSIGNALED(status) ? ::strsignal(WTERMSIG(status))
                                                         : "Exited with exit code " + std::to_string(codes_[rank])]
          .push_back(rank);
      if (plan_.kills_on_bad_exit && !was_killed_) {
        was_killed_ = true;
        // What is said first is what failed first.
        Report();
        if (alive_ > 0 && !plan_.is_quiet) {
          std::fprintf(stderr, "srun: Terminating StepId=%s.%s\n", plan_.job.c_str(), plan_.step.c_str());
        }
        SignalAll(SIGTERM);
        later_ = {SIGKILL, SteadyClock::now() + kKillWait};
      }
    }
  }

  void Report() {
    if (!plan_.is_quiet) {
      for (const auto& [text, ranks] : endings_) {
        std::fprintf(stderr, "srun: error: %s: task%s %s: %s\n", plan_.hostname.c_str(), ranks.size() > 1 ? "s" : "",
                     RankList(ranks).c_str(), text.c_str());
      }
    }
    endings_.clear();
  }

  void SignalAll(int signal) {
    for (const pid_t pid : pids_) {
      if (pid > 0) ::kill(pid, signal);
    }
  }

  const StepPlan& plan_;
  std::vector<pid_t> pids_;  // -1: not running.
  std::vector<int> codes_;
  std::vector<LabelledStream> streams_;
  std::vector<std::string> emptied_;
  std::map<std::string, std::vector<std::size_t>> endings_;
  std::optional<LaterSignal> later_;
  sigset_t before_{};
  int signals_ = -1;
  int alive_ = 0;
  bool has_spawn_failed_ = false;
  bool was_killed_ = false;
};

}  // namespace

std::string RankList(const std::vector<std::size_t>& ranks) {
  IndexRanges ranges;
  for (const std::size_t rank : ranks) ranges.Insert(static_cast<std::uint32_t>(rank));
  return ranges.ToString();
}

std::string FillStepPattern(const std::string& pattern, const StepPlan& plan, std::size_t rank) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 >= pattern.size()) {
      text += pattern[i];
      continue;
    }
    std::size_t width = 0;
    std::size_t at = i + 1;
    while (at < pattern.size() && std::isdigit(static_cast<unsigned char>(pattern[at])) != 0 && width < 100) {
      width = width * 10 + static_cast<std::size_t>(pattern[at++] - '0');
    }
    width = std::min<std::size_t>(width, 10);
    const auto padded = [&](const std::string& number) {
      return number.size() < width ? std::string(width - number.size(), '0') + number : number;
    };
    const char letter = at < pattern.size() ? pattern[at] : '%';
    switch (letter) {
      case 't':
        text += padded(std::to_string(rank));
        break;
      case 'j':
        text += padded(plan.job);
        break;
      case 'A':
        text += padded(plan.array_job.empty() ? plan.job : plan.array_job);
        break;
      case 'a':
        text += padded(plan.array_task.empty() ? "4294967294" : plan.array_task);
        break;
      case 's':
        text += padded(plan.step);
        break;
      case 'J':
        text += plan.job + "." + plan.step;
        break;
      case 'n':
        text += padded("0");
        break;
      case 'N':
        text += plan.hostname;
        break;
      case 'x':
        text += plan.job_name;
        break;
      case 'u':
        text += plan.user;
        break;
      case '%':
        text += '%';
        break;
      default:
        text += pattern.substr(i, at - i + 1);
        break;
    }
    i = at;
  }
  return text;
}

int RunSteps(const StepPlan& plan) {
  if (plan.tasks.empty()) return 0;
  return StepRunner(plan).Run();
}

}  // namespace divvy::cli::slurm
