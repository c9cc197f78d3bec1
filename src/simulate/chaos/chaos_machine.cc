#include "simulate/chaos/chaos_machine.h"

#include <algorithm>
#include <csignal>

namespace divvy::simulate {
namespace {

constexpr Duration kLeftoverGrace = std::chrono::seconds(2);
constexpr Duration kKillPause = std::chrono::seconds(1);

// A parked process waits for its GPU memory. It ends before it returns only if it is stopped.
Time EndOf(const Tree& tree) {
  const bool waits = tree.tenant && !tree.is_stopping &&
                     (tree.tenant->presence == Presence::kAway || tree.tenant->presence == Presence::kReturning);
  return tree.has_process && !tree.is_paused && !waits ? tree.ends_at : kNever;
}

Time DueOf(const Tree& tree) {
  Time due = EndOf(tree);
  if (tree.tenant) due = std::min(due, tree.tenant->copied_at);
  if (tree.is_watched && tree.is_alive()) due = std::min({due, tree.limit_at, tree.kill_at});
  return due;
}

}  // namespace

ChaosMachine::ChaosMachine(int gpus, ChaosClock& clock, Random& random, ChaosTrace& trace, ChaosFigures& figures)
    : clock_(clock), random_(random), trace_(trace), figures_(figures), gpus_(static_cast<std::size_t>(gpus)) {}

Tree* ChaosMachine::Find(JobId job, std::uint32_t attempt) {
  const auto at = trees_.find({job, attempt});
  return at == trees_.end() ? nullptr : &at->second;
}

const Tree* ChaosMachine::Find(JobId job, std::uint32_t attempt) const {
  const auto at = trees_.find({job, attempt});
  return at == trees_.end() ? nullptr : &at->second;
}

RunState ChaosMachine::StateOf(const Tree& tree) {
  if (tree.file.exit) return RunState::kEnded;
  if (tree.is_watched) return RunState::kWatched;
  if (!tree.file.names_process) return RunState::kNeverStarted;
  if (tree.is_taking_over) return RunState::kWatched;
  return tree.has_process ? RunState::kOrphaned : RunState::kVanished;
}

std::optional<std::pair<RunFile, RunState>> ChaosMachine::Read(JobId job) const {
  const auto file = files_.find(job);
  if (file == files_.end()) return std::nullopt;
  const Tree& tree = trees_.at({job, file->second});
  return std::pair(tree.file, StateOf(tree));
}

std::vector<std::pair<RunFile, RunState>> ChaosMachine::Scan() const {
  std::vector<std::pair<RunFile, RunState>> records;
  for (const auto& [job, attempt] : files_) {
    const Tree& tree = trees_.at({job, attempt});
    records.emplace_back(tree.file, StateOf(tree));
  }
  return records;
}

bool ChaosMachine::IsLocked(JobId job) const {
  const auto file = files_.find(job);
  return file != files_.end() && trees_.at({job, file->second}).is_watched;
}

void ChaosMachine::Remove(JobId job) {
  const auto file = files_.find(job);
  if (file == files_.end()) return;
  const Key key(job, file->second);
  files_.erase(file);
  Bury(trees_.at(key));
}

// Removes a run (a tree of processes) of which nothing can be observed any more.
void ChaosMachine::Bury(const Tree& tree) {
  const auto file = files_.find(tree.job);
  const bool has_name = file != files_.end() && file->second == tree.attempt;
  if (has_name || tree.is_watched || tree.is_taking_over || tree.is_alive()) return;
  trees_.erase({tree.job, tree.attempt});
}

bool ChaosMachine::Send(CommandMessage command) {
  const Tree* tree = Find(command.job, command.attempt);
  if (tree == nullptr || !tree->is_watched || tree->file.watcher != command.watcher) return false;
  commands_.push_back(command);
  return true;
}

void ChaosMachine::Launch(const LaunchMessage& launch) {
  if (has_launcher_) launches_.push_back(launch);
  else ++figures_.lost_messages;
}

void ChaosMachine::Claim(std::size_t index) {
  if (index > 0) ++figures_.late_messages;
  const LaunchMessage launch = launches_[index];
  const auto file = files_.find(launch.job);
  if (file != files_.end()) {
    const Tree& before = trees_.at({launch.job, file->second});
    const bool is_void = !before.file.names_process && !before.file.exit;
    if (before.is_watched && before.attempt < launch.attempt) return;  // Waits for the lock.
    if (before.is_watched || (!is_void && before.file.attempt >= launch.attempt)) {
      trace_.Note("a supervisor finds a run record and ignores the launch: job", launch.job, launch.attempt);
      launches_.erase(launches_.begin() + static_cast<std::ptrdiff_t>(index));
      return;
    }
    Remove(launch.job);
  }
  launches_.erase(launches_.begin() + static_cast<std::ptrdiff_t>(index));
  const Key key(launch.job, launch.attempt);
  if (trees_.contains(key)) {
    trace_.Break("attempt " + std::to_string(launch.attempt) + " of job " + ToString(launch.job) + " is claimed twice");
    return;
  }
  Tree& tree = trees_[key];
  tree.job = launch.job;
  tree.attempt = launch.attempt;
  tree.launch = launch;
  tree.launcher = launcher_;
  tree.file.job = launch.job;
  tree.has_guard = random_.Below(50) != 0;
  files_[launch.job] = launch.attempt;
  trace_.Note("a supervisor claims job", launch.job, launch.attempt);
}

bool ChaosMachine::IsReady(const Tree& tree) {
  if (tree.is_taking_over || (tree.leftovers > 0 && tree.is_doomed)) return true;
  return tree.is_watched && (!tree.file.names_process || !tree.is_alive());
}

std::size_t ChaosMachine::CountReady() const {
  std::size_t count = 0;
  for (const auto& [key, tree] : trees_) count += IsReady(tree) ? 1 : 0;
  return count;
}

void ChaosMachine::AdvanceReady(std::size_t nth) {
  for (auto& [key, tree] : trees_) {
    if (IsReady(tree) && nth-- == 0) return Advance(tree);
  }
}

void ChaosMachine::Advance(Tree& tree) {
  if (tree.is_taking_over) return TakeOver(tree);
  if (tree.leftovers > 0 && tree.is_doomed) {
    --tree.leftovers;
    trace_.Note("a leftover process is gone: job", tree.job, tree.attempt);
    if (!tree.is_alive()) FreeGpus(tree);
    return Bury(tree);
  }
  if (tree.file.exit) {
    trace_.Note("end reported: job", tree.job, tree.attempt);
    Report(tree, true);
    // The supervisor may be killed after its report and before it is done. Then its guard sends the report again.
    if (tree.has_guard && !is_calm_ && random_.Below(30) == 0) {
      Report(tree, true);
      ++figures_.doubled_messages;
    }
    tree.is_watched = false;
    return Bury(tree);
  }
  if (!tree.file.names_process) return Begin(tree);
  tree.file.exit = tree.reaped ? *tree.reaped : Exit();
  tree.file.exit->is_known = tree.reaped.has_value();
  tree.file.exit->hit_time_limit = tree.hit_limit;
  tree.file.ended = clock_.Wall();
  trace_.Note("end written to the run record: job", tree.job, tree.attempt);
}

void ChaosMachine::Begin(Tree& tree) {
  Fate& fate = fates_[tree.job];
  tree.file.attempt = tree.attempt;
  tree.file.watcher = ++last_watcher_;
  if (!is_calm_ && random_.Below(60) == 0) {
    tree.file.exit = Exit();
    tree.file.exit->code = 127;
    tree.file.exit->failure = "no such program";
    tree.file.ended = clock_.Wall();
    fate.failed_to_start = true;
    trace_.Note("cannot be started: job", tree.job, tree.attempt);
    return;
  }
  ++figures_.launches;
  TakeGpus(tree, tree.launch.gpus);
  ++fate.starts;
  if (fate.attempt >= tree.attempt || fate.starts > tree.launch.restarts + 1) {
    trace_.Break("job " + ToString(tree.job) + " is started twice: attempt " + std::to_string(tree.attempt) +
                 " starts after attempt " + std::to_string(fate.attempt) + ", " + std::to_string(fate.starts) +
                 " starts, but only " + std::to_string(tree.launch.restarts) + " recorded reasons to start again");
  }
  fate.attempt = tree.attempt;
  fate.end.reset();
  fate.hit_limit = fate.may_be_unseen = fate.failed_to_start = fate.is_paused = false;
  fate.boot = boot_;
  fate.began = clock_.true_time;
  tree.has_process = true;
  tree.file.names_process = true;
  tree.file.started = clock_.Wall();
  tree.end = DrawExit();
  tree.ends_at = AddSaturating(clock_.true_time, DrawRunTime());
  tree.limit = tree.launch.time_limit;
  if (tree.launch.time_limit > Duration(0)) tree.limit_at = AddSaturating(clock_.true_time, tree.launch.time_limit);
  trace_.Note("starts: job", tree.job, tree.attempt);
  Report(tree, false);
  if (!tree.launch.is_parkable || DrawsFailure()) return;  // The keeper may refuse it: it runs as an ordinary one.
  tree.tenant.emplace().gpus = tree.launch.gpus;
  SayPresence(tree);
}

Exit ChaosMachine::DrawExit() {
  Exit exit;
  const std::uint64_t draw = random_.Below(10);
  if (draw < 6) return exit;
  if (draw == 9) return EndedBy(random_.Below(2) == 0 ? SIGSEGV : SIGKILL);
  exit.code = static_cast<int>(1 + random_.Below(125));
  exit.was_oom_killed = draw == 8;
  return exit;
}

Duration ChaosMachine::DrawRunTime() {
  const std::uint64_t draw = has_long_runs_ ? random_.Below(14) + 6 : random_.Below(20);
  if (draw < 8) return std::chrono::milliseconds(random_.Below(50));
  if (draw < 16) return std::chrono::milliseconds(random_.Below(30'000));
  if (draw < 19 || is_calm_) return std::chrono::seconds(random_.Below(3600));
  return Duration::max();
}

void ChaosMachine::EndProcess(Tree& tree, const Exit& exit) {
  tree.has_process = false;
  tree.is_paused = false;
  tree.tenant.reset();
  Fate& fate = fates_[tree.job];
  if (fate.attempt == tree.attempt) {
    fate.end = exit;
    fate.is_paused = false;
  }
  const bool is_seen = tree.is_watched || tree.is_taking_over;
  if (is_seen) tree.reaped = exit;
  else tree.exit_is_visible = random_.Below(3) == 0;
  tree.leftovers = random_.Below(12) == 0 ? static_cast<int>(1 + random_.Below(2)) : 0;
  if (tree.leftovers > 0) tree.kill_at = std::min(tree.kill_at, clock_.true_time + kLeftoverGrace);
  else FreeGpus(tree);
  trace_.Note("ends: job", tree.job, exit.code);
  Bury(tree);
}

void ChaosMachine::FreeGpus(const Tree& tree) {
  for (Gpu& gpu : gpus_) {
    if (gpu.owner == Key(tree.job, tree.attempt)) gpu.owner = Key();
  }
}

void ChaosMachine::Report(const Tree& tree, bool is_exit) {
  if (has_daemon_) reports_.push_back({is_exit, tree.file});
  else ++figures_.lost_messages;
}

// As in Supervisor::BeginStop: a second stop can shorten the grace period, but not extend it.
void ChaosMachine::BeginStop(Tree& tree, int signal, Duration grace) {
  tree.is_stopping = true;
  tree.limit_at = kNever;
  tree.kill_at = std::min(tree.kill_at, AddSaturating(clock_.true_time, std::max(grace, Duration(0))));
  if (grace <= Duration(0)) return;
  tree.is_paused = false;
  if (Fate& fate = fates_[tree.job]; fate.attempt == tree.attempt) fate.is_paused = false;
  React(tree, signal);
}

void ChaosMachine::React(Tree& tree, int signal) {
  if (!tree.has_process || signal == SIGUSR1) return;
  const std::uint64_t draw = random_.Below(4);
  if (draw == 3) return;  // The process ignores the signal.
  tree.end = EndedBy(signal);
  if (draw == 2) {
    tree.end = Exit();
    tree.end.code = static_cast<int>(random_.Below(100));
  }
  tree.ends_at = std::min(tree.ends_at, clock_.true_time + std::chrono::milliseconds(random_.Below(3000)));
}

void ChaosMachine::DeliverCommand(std::size_t index) {
  // Each watcher reads its commands in the order in which they were sent.
  for (std::size_t i = 0; i < index; ++i) {
    if (commands_[i].watcher == commands_[index].watcher) index = i;
  }
  if (index > 0) ++figures_.late_messages;
  const CommandMessage command = commands_[index];
  commands_.erase(commands_.begin() + static_cast<std::ptrdiff_t>(index));
  Tree* tree = Find(command.job, command.attempt);
  if (tree == nullptr || !tree->is_watched || tree->file.watcher != command.watcher || tree->file.exit) {
    ++figures_.lost_messages;
    trace_.Note("command lost, no supervisor receives it: job", command.job, static_cast<std::int64_t>(command.kind));
    return;
  }
  trace_.Note("command received: job", command.job, static_cast<std::int64_t>(command.kind));
  Fate& fate = fates_[tree->job];
  switch (command.kind) {
    case CommandMessage::Kind::kStop:
      return BeginStop(*tree, command.signal, command.duration);
    case CommandMessage::Kind::kSignal:
      if (command.signal == SIGKILL && tree->has_process) return EndProcess(*tree, EndedBy(SIGKILL));
      return React(*tree, command.signal);
    case CommandMessage::Kind::kPause:
      if (!tree->is_stopping && tree->has_process) tree->is_paused = fate.is_paused = true;
      return;
    case CommandMessage::Kind::kContinue:
      tree->is_paused = fate.is_paused = false;
      return;
    case CommandMessage::Kind::kTimeLimit: {
      if (tree->is_stopping) return;
      tree->limit = command.duration;
      tree->limit_at = kNever;
      // Supervisors count wall clock time from the start.
      if (command.duration > Duration(0))
        tree->limit_at = clock_.true_time + (AddSaturating(tree->file.started, command.duration) - clock_.Wall());
      return;
    }
    case CommandMessage::Kind::kPing:
      return Report(*tree, false);
  }
}

void ChaosMachine::TakeOver(Tree& tree) {
  tree.is_taking_over = false;
  if (tree.file.exit) {  // The supervisor may have died before it reported the end.
    trace_.Note("end reported by the guard: job", tree.job, tree.attempt);
    Report(tree, true);
    return Bury(tree);
  }
  trace_.Note("the guard takes over: job", tree.job, tree.attempt);
  tree.is_watched = true;
  tree.has_guard = false;
  tree.file.watcher = ++last_watcher_;
  Report(tree, false);
}

Time ChaosMachine::NextDue() const {
  Time due = kNever;
  for (const auto& [key, tree] : trees_) due = std::min(due, DueOf(tree));
  return due;
}

bool ChaosMachine::FireOneDue() {
  const Time now = clock_.true_time;
  for (auto& [key, tree] : trees_) {
    if (DueOf(tree) > now) continue;
    if (tree.tenant && tree.tenant->copied_at <= now) {
      OnCopied(tree);
    } else if (EndOf(tree) <= now) {
      EndProcess(tree, tree.end);
    } else if (tree.limit_at <= now) {
      trace_.Note("reaches its time limit: job", tree.job, tree.attempt);
      tree.hit_limit = true;
      if (Fate& fate = fates_[tree.job]; fate.attempt == tree.attempt) fate.hit_limit = true;
      BeginStop(tree, tree.launch.stop_signal, tree.launch.grace);
    } else {
      tree.kill_at = now + kKillPause;
      tree.is_doomed = tree.leftovers > 0;
      if (tree.has_process) EndProcess(tree, EndedBy(SIGKILL));
    }
    return true;
  }
  return false;
}

int ChaosMachine::SignalTree(JobId job, std::uint32_t attempt, int signal) {
  Tree* tree = Find(job, attempt);
  if (tree == nullptr) return 0;
  const int reached = (tree->has_process ? 1 : 0) + tree->leftovers;
  if (signal == SIGSTOP || signal == SIGCONT) {
    tree->is_paused = signal == SIGSTOP && tree->has_process;
    if (Fate& fate = fates_[job]; fate.attempt == attempt) fate.is_paused = tree->is_paused;
  } else if (signal == SIGKILL) {
    tree->is_doomed = true;
    if (tree->has_process) EndProcess(*tree, EndedBy(SIGKILL));
  } else {
    React(*tree, signal);
  }
  return reached;
}

bool ChaosMachine::HasProcess(JobId job, std::uint32_t attempt) const {
  const Tree* tree = Find(job, attempt);
  return tree != nullptr && tree->has_process;
}

Exit ChaosMachine::ExitSeenFromOutside(JobId job, std::uint32_t attempt) const {
  const Tree* tree = Find(job, attempt);
  const Fate* fate = FateOf(job);
  Exit exit;
  exit.is_known = tree != nullptr && tree->exit_is_visible && fate != nullptr && fate->end;
  if (exit.is_known) {
    exit.code = fate->end->code;
    exit.signal = fate->end->signal;
  }
  return exit;
}

const Fate* ChaosMachine::FateOf(JobId job) const {
  const auto at = fates_.find(job);
  return at == fates_.end() ? nullptr : &at->second;
}

bool ChaosMachine::IsAlive(JobId job, std::uint32_t attempt) const {
  const Tree* tree = Find(job, attempt);
  return tree != nullptr && tree->is_alive();
}

std::string ChaosMachine::DescribeTrees() const {
  std::string text;
  for (const auto& [key, tree] : trees_) {
    text += " " + ToString(key.first) + "#" + std::to_string(key.second) + (tree.is_watched ? " watched" : "") +
            (tree.is_taking_over ? " taking-over" : "") + (tree.has_process ? " process" : "") +
            (tree.leftovers > 0 ? " leftovers" : "") + (tree.is_paused ? " paused" : "") +
            (tree.tenant && tree.tenant->presence != Presence::kHere ? " parked" : "") +
            (tree.file.exit ? " ended" : "");
  }
  return text.empty() ? " none" : text;
}

}  // namespace divvy::simulate
