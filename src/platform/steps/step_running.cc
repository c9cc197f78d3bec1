#include "platform/steps/step_running.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/index_ranges.h"
#include "model/steps/gang_file.h"

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

std::string RunningStep::Place(const std::string& host, const std::vector<std::size_t>& of) const {
  return plan.program + ": error: " + host + ": task" + (of.size() > 1 ? "s " : " ") + RankList(of) + ": ";
}

std::string RunningStep::Label(std::size_t rank) const {
  const std::string number = std::to_string(rank);
  const std::size_t width = std::to_string(count_ - 1).size();
  return std::string(width - std::min(width, number.size()), ' ') + number + ": ";
}

std::array<int, 3> RunningStep::MakePipes(const StepTask& task, std::size_t rank, Pipes& pipes) {
  std::array<int, 3> ends = {-1, -1, -1};
  if (served != nullptr) {
    std::array<bool, 3> is_wanted = {};
    for (std::size_t target = 0; target < 3; ++target)
      is_wanted[target] = task.streams[target].kind == StepStream::Kind::kLabelled;
    if (const auto made = served->MakePipes(rank, is_wanted)) ends = *made;
    for (const int fd : ends) {
      if (fd >= 0) pipes.writing.emplace_back(fd);
    }
    return ends;
  }
  for (const std::size_t target : {std::size_t{1}, std::size_t{2}}) {
    if (task.streams[target].kind != StepStream::Kind::kLabelled) continue;
    std::array<int, 2> pipe = {-1, -1};
    // Without pipes the output goes to the caller unlabelled instead of being lost.
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
      ends[target] = call.streams[target].get();
      continue;
    }
    pipes.reading.emplace_back(pipe[0]);
    pipes.writing.emplace_back(pipe[1]);
    ends[target] = pipe[1];
    pipes.labels += std::to_string(target) + " " + Label(rank) + "\n";
  }
  return ends;
}

void RunningStep::NoteMachines() {
  line.gpus = GpusHere();
  line.machines = plan.machines;
  if (served != nullptr) return;  // The node where the step was called has sent their GPUs.
  const bool has_own = !plan.spread || plan.spread->has_own;
  const std::size_t own = plan.spread ? plan.spread->own_place : 0;
  for (std::size_t i = 0; i < line.machines.size(); ++i) {
    const bool is_here = has_own && i == own;
    const std::size_t part = has_own && i > own ? i - 1 : i;
    if (!is_here && (parts == nullptr || part >= parts->size())) continue;
    line.machines[i].gpus = ReadGpuIndices(is_here ? line.gpus : parts->gpus(part)).value_or(GpuSet());
  }
}

bool RunningStep::TakeMap(std::string_view text) {
  if (auto map = ReadStepMap(text)) line.map.insert(line.map.end(), map->begin(), map->end());
  if (parts == nullptr || ++maps_ != parts->size()) return false;
  std::ranges::sort(line.map, {}, &StepTaskLine::rank);
  return !is_waiting() && line.state != StepState::kEnded && !line.map.empty();
}

std::string RunningStep::Start(const StepTasks& wanted, int socket) {
  const std::vector<StepTask>& tasks = wanted.tasks;
  pids.assign(tasks.size(), -1);
  ranks = wanted.ranks;
  count_ = std::max<std::size_t>(plan.tasks > 0 ? plan.tasks : tasks.size(), 1);
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
  for (std::size_t place = 0; place < tasks.size(); ++place) {
    const std::size_t rank = Rank(place);
    const std::array<int, 3> ends = MakePipes(tasks[place], rank, pipes);
    const StartedTask started = StartStepTask(tasks[place], call, ends, rank == 0 ? terminal.slave.get() : -1);
    pipes.writing.clear();
    if (started.pid > 0) {
      pids[place] = started.pid;
      ++alive;
    } else {
      failures += Place(plan.host, {rank}) + started.failure + "\n";
      highest_ = std::max(highest_, started.failure_code);
      if (first_failure_ == 0) first_failure_ = started.failure_code;
      if (served != nullptr) served->OnTaskEnded(rank, -1, started.failure_code);
    }
    if (pipes.reading.size() >= kPipesAtOnce) hand_over();
  }
  hand_over();
  if (served != nullptr) served->OnAllStarted();
  // From now on only the tasks have these streams open, so that readers see the end when the tasks have ended.
  for (Descriptor& stream : call.streams) stream.Reset();
  return failures;
}

void RunningStep::SignalAll(int signal) const {
  for (const pid_t pid : pids) {
    if (pid > 0) ::kill(-pid, signal);
  }
  if (parts != nullptr) parts->Signal(signal);
}

void RunningStep::NoteEnd(std::size_t place, int signal, int code) {
  pids[place] = -1;
  --alive;
  if (served != nullptr) {
    NoteCode(code);
    return served->OnTaskEnded(Rank(place), signal, code);
  }
  NoteEndOn(plan.host, Rank(place), signal, code);
}

void RunningStep::NoteCode(int code) {
  if (first_failure_ == 0) first_failure_ = code;
  highest_ = std::max(highest_, code);
}

void RunningStep::NoteEndOn(const std::string& host, std::size_t rank, int signal, int code) {
  if (code == 0) return;
  NoteCode(code);
  if (signal < 0) return;  // It could not be started, which was already reported.
  const std::string how = signal != 0 ? ::strsignal(signal) : "Exited with exit code " + std::to_string(code);
  endings_[{host, how}].push_back(rank);
}

std::string RunningStep::TakeEndings() {
  std::string text;
  for (const auto& [host_and_how, of] : std::exchange(endings_, {})) {
    if (!plan.is_quiet) text += Place(host_and_how.first, of) + host_and_how.second + "\n";
  }
  return text;
}

std::string RunningStep::Labelled(std::size_t rank, char target, std::string_view text) {
  if (!plan.has_labels) return std::string(text);
  std::string& rest = rests_[{rank, target}];
  rest.append(text);
  std::string out;
  std::size_t start = 0;
  for (std::size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', start)) {
    out.append(Label(rank)).append(rest, start, end - start + 1);
    start = end + 1;
  }
  rest.erase(0, start);
  return out;
}

std::vector<std::pair<char, std::string>> RunningStep::TakeRests(std::size_t rank) {
  std::vector<std::pair<char, std::string>> out;
  for (const char target : {'1', '2'}) {
    const auto rest = rests_.extract({rank, target});
    if (rest && !rest.mapped().empty()) out.emplace_back(target, Label(rank) + rest.mapped() + "\n");
  }
  return out;
}

std::string RunningStep::AliveText() const {
  std::vector<std::size_t> running;
  for (std::size_t place = 0; place < pids.size(); ++place) {
    if (pids[place] > 0) running.push_back(Rank(place));
  }
  if (parts != nullptr) {
    for (const std::size_t rank : parts->Alive()) running.push_back(rank);
  }
  return (running.size() > 1 ? "s " : " ") + RankList(running);
}

}  // namespace divvy
