#include "platform/step_running.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/index_ranges.h"

namespace divvy {
namespace {

constexpr std::size_t kPipesAtOnce = 128;

struct Terminal {
  Descriptor master;
  Descriptor slave;
};

Terminal OpenTerminal() {
  Terminal terminal;
  terminal.master.Reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[64] = "";
  if (terminal.master.is_open() && ::grantpt(terminal.master.get()) == 0 && ::unlockpt(terminal.master.get()) == 0 &&
      ::ptsname_r(terminal.master.get(), name, sizeof name) == 0) {
    terminal.slave.Reset(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  }
  return terminal;
}

}  // namespace

std::string RankList(const std::vector<std::size_t>& ranks) {
  IndexRanges ranges;
  for (const std::size_t rank : ranks) ranges.Insert(static_cast<std::uint32_t>(rank));
  return ranges.ToString();
}

std::string RunningStep::Place(const std::vector<std::size_t>& ranks) const {
  return plan.program + ": error: " + plan.host + ": task" + (ranks.size() > 1 ? "s " : " ") + RankList(ranks) + ": ";
}

std::array<int, 3> RunningStep::MakePipes(const StepTask& task, std::size_t rank, std::size_t count, Pipes& pipes) {
  std::array<int, 3> ends = {-1, -1, -1};
  for (const std::size_t target : {std::size_t{1}, std::size_t{2}}) {
    if (task.streams[target].kind != StepStream::Kind::kLabelled) continue;
    std::array<int, 2> pipe = {-1, -1};
    // Unlabelled then, rather than lost.
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
      ends[target] = call.streams[target].get();
      continue;
    }
    pipes.reading.emplace_back(pipe[0]);
    pipes.writing.emplace_back(pipe[1]);
    ends[target] = pipe[1];
    const std::string number = std::to_string(rank);
    const std::size_t width = std::to_string(count - 1).size();
    pipes.labels += std::to_string(target) + " " + std::string(width - number.size(), ' ') + number + ": \n";
  }
  return ends;
}

std::string RunningStep::Start(const std::vector<StepTask>& tasks, int socket) {
  pids.assign(tasks.size(), -1);
  codes.assign(tasks.size(), -1);
  std::string failures;
  Terminal terminal;
  if (plan.has_terminal) {
    terminal = OpenTerminal();
    if (terminal.slave.is_open()) {
      const int master = terminal.master.get();
      SendStepFrame(socket, StepWord::kTerminal, 0, {}, {&master, 1});
    } else {
      failures += plan.program + ": error: cannot open a terminal: " + std::strerror(errno) + "\n";
    }
  }
  Pipes pipes;
  const auto hand_over = [&] {
    std::vector<int> fds;
    for (const Descriptor& pipe : pipes.reading) fds.push_back(pipe.get());
    if (!fds.empty()) SendStepFrame(socket, StepWord::kStreams, 0, pipes.labels, fds);
    pipes = {};
  };
  for (std::size_t rank = 0; rank < tasks.size(); ++rank) {
    const std::array<int, 3> ends = MakePipes(tasks[rank], rank, tasks.size(), pipes);
    const StartedTask started = StartStepTask(tasks[rank], call, ends, rank == 0 ? terminal.slave.get() : -1);
    pipes.writing.clear();
    if (started.pid > 0) {
      pids[rank] = started.pid;
      ++alive;
    } else {
      failures += Place({rank}) + started.failure + "\n";
      codes[rank] = started.failure_code;
      if (first_failure_ == 0) first_failure_ = started.failure_code;
    }
    if (pipes.reading.size() >= kPipesAtOnce) hand_over();
  }
  hand_over();
  // The tasks have them now, and only they: their readers see the end.
  for (Descriptor& stream : call.streams) stream.Reset();
  return failures;
}

void RunningStep::SignalAll(int signal) const {
  for (const pid_t pid : pids) {
    if (pid > 0) ::kill(-pid, signal);
  }
}

void RunningStep::NoteEnd(std::size_t rank, int signal, int code) {
  pids[rank] = -1;
  codes[rank] = code;
  --alive;
  if (code == 0) return;
  if (first_failure_ == 0) first_failure_ = code;
  endings_[signal != 0 ? ::strsignal(signal) : "Exited with exit code " + std::to_string(code)].push_back(rank);
}

std::string RunningStep::TakeEndings() {
  std::string text;
  for (const auto& [how, ranks] : std::exchange(endings_, {})) {
    if (!plan.is_quiet) text += Place(ranks) + how + "\n";
  }
  return text;
}

int RunningStep::Code() const {
  if (plan.takes_first_failure) return first_failure_;
  return codes.empty() ? 0 : std::max(*std::ranges::max_element(codes), 0);
}

std::string RunningStep::AliveText() const {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < pids.size(); ++rank) {
    if (pids[rank] > 0) ranks.push_back(rank);
  }
  return (ranks.size() > 1 ? "s " : " ") + RankList(ranks);
}

}  // namespace divvy
