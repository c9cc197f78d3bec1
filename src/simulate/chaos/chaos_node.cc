#include "simulate/chaos/chaos_node.h"

#include <algorithm>
#include <csignal>
#include <variant>

namespace divvy::simulate {
namespace {

Exit UnknownExit() {
  Exit exit;
  exit.is_known = false;
  return exit;
}

}  // namespace

// --- Launches: Node::Launch and ProcessLauncher -------------------------------------------------------------------

void ChaosNode::Launch(const JobRecord& record, const std::shared_ptr<const JobSpec>& spec) {
  if (spec == nullptr) return FailLaunch(record, "its specification could not be read from the store");
  LaunchMessage message;
  message.job = record.id;
  message.attempt = record.attempt;
  message.gpus = record.gpus;
  message.time_limit = record.time_limit;
  message.stop_signal = spec->stop_signal;
  message.grace = spec->grace;
  message.restarts = record.restarts;
  Run run;
  run.file.job = record.id;
  run.file.attempt = record.attempt;
  run.stop_signal = spec->stop_signal;
  run.grace = spec->grace;
  runs_.insert_or_assign(record.id, std::move(run));
  unconfirmed_.insert_or_assign(Key(record.id, record.attempt), PendingLaunch{message, false});
  machine_.Launch(message);
}

void ChaosNode::FailLaunch(const JobRecord& record, const std::string& why) {
  runs_.erase(record.id);
  Exit exit;
  exit.code = 127;
  exit.failure = why;
  controller_.OnExited(record.id, record.attempt, exit, ports_.now(), ports_.now());
  ports_.touch();
}

void ChaosNode::RepeatLost() {
  for (auto& [key, pending] : unconfirmed_) {
    if (!pending.is_stranded) continue;
    const auto record = machine_.Read(key.first);
    const bool is_void = !record || (!machine_.IsLocked(key.first) &&
                                     (record->second == RunState::kNeverStarted || record->first.attempt < key.second));
    if (!is_void && mutation_ != ChaosMutation::kRepeatsOnSuspicion) continue;
    trace_.Note("lost launch repeated: job", key.first, key.second);
    pending.is_stranded = false;
    machine_.Launch(pending.message);
  }
}

void ChaosNode::OnLauncherDied() {
  for (auto& [key, pending] : unconfirmed_) pending.is_stranded = true;
  RepeatLost();
}

void ChaosNode::OnStranded(JobId job, std::uint32_t attempt) {
  if (const auto at = unconfirmed_.find({job, attempt}); at != unconfirmed_.end()) at->second.is_stranded = true;
  RepeatLost();
}

// --- Node commands --------------------------------------------------------------------------------------------------

void ChaosNode::Execute(const NodeCommand& order, const std::shared_ptr<const JobSpec>& spec) {
  if (const auto* launch = std::get_if<LaunchCommand>(&order)) return Launch(launch->record, spec);
  if (const auto* forget = std::get_if<ForgetCommand>(&order)) return Forget(forget->job, forget->attempt);
  const auto run = runs_.find(JobOf(order));
  if (run == runs_.end()) return;
  if (mutation_ == ChaosMutation::kFreesGpusEarly && std::holds_alternative<StopCommand>(order)) {
    Exit exit;
    exit.code = 143;
    exit.signal = 15;
    controller_.OnExited(run->first, run->second.file.attempt, exit, ports_.now(), ports_.now());
    ports_.touch();
  }
  if (run->second.file.watcher == 0 && !run->second.is_adopted) {
    run->second.waiting.push_back(order);
    return;
  }
  Deliver(run->second, order);
}

bool ChaosNode::Send(const Run& run, CommandMessage::Kind kind, int signal, Duration duration) {
  return machine_.Send({kind, run.file.job, run.file.attempt, run.file.watcher, signal, duration});
}

void ChaosNode::Signal(const Run& run, int signal) { machine_.SignalTree(run.file.job, run.file.attempt, signal); }

void ChaosNode::Deliver(Run& run, const NodeCommand& order) {
  if (const auto* stop = std::get_if<StopCommand>(&order)) {
    const int signal = stop->signal != 0 ? stop->signal : run.stop_signal;
    const Duration grace = stop->grace >= Duration(0) ? stop->grace : run.grace;
    if (!run.is_adopted) {
      Send(run, CommandMessage::Kind::kStop, signal, grace);
      return;
    }
    Signal(run, grace > Duration(0) ? signal : SIGKILL);
    Signal(run, SIGCONT);
    run.kill_at = std::min(run.kill_at, AddSaturating(ports_.now(), grace));
    run.limit_at = kNever;
  } else if (const auto* send = std::get_if<SignalCommand>(&order)) {
    if (run.is_adopted) Signal(run, send->signal);
    else Send(run, CommandMessage::Kind::kSignal, send->signal);
  } else if (const auto* pause = std::get_if<PauseCommand>(&order)) {
    if (run.is_adopted) Signal(run, pause->is_paused ? SIGSTOP : SIGCONT);
    else Send(run, pause->is_paused ? CommandMessage::Kind::kPause : CommandMessage::Kind::kContinue);
  } else if (const auto* limit = std::get_if<TimeLimitCommand>(&order)) {
    const JobRecord* live = controller_.Find(limit->job);
    if (live == nullptr) return;
    if (!run.is_adopted) Send(run, CommandMessage::Kind::kTimeLimit, 0, live->time_limit);
    else run.limit_at = live->time_limit > Duration(0) ? AddSaturating(run.file.started, live->time_limit) : kNever;
  }
}

void ChaosNode::Forget(JobId job, std::uint32_t attempt) {
  const auto run = runs_.find(job);
  if (run == runs_.end() || run->second.file.attempt != attempt) return;
  machine_.Remove(job);
  runs_.erase(run);
}

// --- Reports --------------------------------------------------------------------------------------------------------

void ChaosNode::OnReport(const ReportMessage& report) {
  const RunFile& file = report.file;
  unconfirmed_.erase({file.job, file.attempt});
  const auto run = runs_.find(file.job);
  if (run == runs_.end() || run->second.file.attempt != file.attempt) {
    if (report.is_exit) RemoveRecordOf(file);
    return;
  }
  const std::uint64_t before = run->second.file.watcher;
  run->second.file = file;
  if (report.is_exit) return OnEnded(file);
  run->second.is_adopted = false;
  if (before != 0 && before != file.watcher) Remind(run->second);
  controller_.OnStarted(file.job, file.attempt, file.started);
  ports_.touch();
  for (const NodeCommand& order : std::exchange(run->second.waiting, {})) Deliver(run->second, order);
}

void ChaosNode::RemoveRecordOf(const RunFile& file) {
  const auto there = machine_.Read(file.job);
  if (!there) return;
  const bool is_it = there->first.attempt == file.attempt;
  if (is_it || mutation_ == ChaosMutation::kRemovesAnyRecord) machine_.Remove(file.job);
}

void ChaosNode::OnEnded(const RunFile& file) {
  // However the end was noticed: an unconfirmed launch would be repeated once its record is gone.
  if (mutation_ != ChaosMutation::kForgetsToConfirm) unconfirmed_.erase({file.job, file.attempt});
  const JobRecord* live = controller_.Find(file.job);
  if (is_looking_ && live != nullptr && !live->gpus.empty()) {
    looks_.push_back(file);
    return;
  }
  Exited(file);
}

void ChaosNode::FinishLook(std::size_t index) {
  const RunFile file = looks_[index];
  looks_.erase(looks_.begin() + static_cast<std::ptrdiff_t>(index));
  if (const JobRecord* live = controller_.Find(file.job))
    controller_.OnGpusObserved(machine_.Observe(live->gpus, known()));
  Exited(file);
}

void ChaosNode::Exited(const RunFile& file) {
  controller_.OnExited(file.job, file.attempt, *file.exit, file.ended, ports_.now());
  ports_.touch();
  if (mutation_ == ChaosMutation::kForgetsBeforeCommit) machine_.Remove(file.job);
}

// --- After the daemon, a supervisor or a guard was killed -----------------------------------------------------------

void ChaosNode::Remind(Run& run) {
  const JobRecord* live = controller_.Find(run.file.job);
  if (live == nullptr || live->attempt != run.file.attempt) return;
  const auto say = [&](const NodeCommand& order) {
    if (run.file.watcher != 0 || run.is_adopted) Deliver(run, order);
    else run.waiting.push_back(order);
  };
  if (live->state == JobState::kPaused) say(PauseCommand{live->id, true});
  else if (mutation_ != ChaosMutation::kForgetsToResume) say(PauseCommand{live->id, false});
  if (mutation_ != ChaosMutation::kForgetsLimits) say(TimeLimitCommand{live->id, Deadline(*live)});
  if (live->stop_intent != StopIntent::kNone) say(StopCommand{live->id, 0, Duration(-1)});
}

void ChaosNode::AdoptOrphan(const RunFile& file) {
  Run& run = runs_[file.job];
  run.file = file;
  run.file.watcher = 0;
  if (!machine_.HasProcess(file.job, file.attempt)) {
    if (EndLeftovers(file)) OnVanished(file, file.attempt);
    return;
  }
  trace_.Note("run adopted: job", file.job, file.attempt);
  run.is_adopted = true;
  const JobRecord* live = controller_.Find(file.job);
  if (live == nullptr) return;
  controller_.OnStarted(file.job, file.attempt, file.started);
  LoadStopTerms(run);
  if (live->time_limit > Duration(0)) run.limit_at = AddSaturating(file.started, live->time_limit);
  Remind(run);
}

std::vector<JobId> ChaosNode::EndedAdopted() const {
  std::vector<JobId> jobs;
  for (const auto& [job, run] : runs_) {
    if (run.is_adopted && !run.file.exit && !machine_.HasProcess(job, run.file.attempt)) jobs.push_back(job);
  }
  return jobs;
}

void ChaosNode::OnAdoptedEnded(JobId job) {
  Run& run = runs_.at(job);
  run.file.exit = machine_.ExitSeenFromOutside(job, run.file.attempt);
  run.file.exit->hit_time_limit = run.hit_limit;
  run.file.ended = ports_.now();
  run.awaits_leftovers = machine_.SignalTree(job, run.file.attempt, SIGKILL) > 0;
  if (!run.awaits_leftovers) OnEnded(RunFile(run.file));
}

bool ChaosNode::EndLeftovers(const RunFile& file) { return machine_.SignalTree(file.job, file.attempt, SIGKILL) == 0; }

void ChaosNode::OnVanished(const RunFile& file, std::uint32_t attempt) {
  unconfirmed_.erase({file.job, attempt});
  Run& run = runs_[file.job];
  run.file = file;
  run.file.attempt = attempt;
  run.is_adopted = false;
  run.file.exit = UnknownExit();
  run.file.ended = ports_.now();
  OnEnded(RunFile(run.file));
}

void ChaosNode::LoadStopTerms(Run& run) {
  const auto spec = ports_.spec_of(controller_.live().at(run.file.job));
  if (spec == nullptr) return;
  run.stop_signal = spec->stop_signal;
  run.grace = spec->grace;
}

void ChaosNode::KeepTimeOfAdopted() {
  const Time now = ports_.now();
  std::vector<RunFile> ended;
  for (auto& [job, run] : runs_) {
    if (!run.is_adopted) continue;
    if (run.awaits_leftovers) {
      run.awaits_leftovers = machine_.SignalTree(job, run.file.attempt, SIGKILL) > 0;
      if (!run.awaits_leftovers) ended.push_back(run.file);
      continue;
    }
    if (run.file.exit) continue;
    run.hit_limit |= run.limit_at <= now;
    if (run.limit_at <= now) Deliver(run, StopCommand{job, 0, Duration(-1)});
    if (run.kill_at <= now) Signal(run, SIGKILL);
  }
  for (const RunFile& file : ended) OnEnded(file);
}

Time ChaosNode::NextDue() const {
  Time due = kNever;
  for (const auto& [job, run] : runs_) {
    if (run.is_adopted && !run.file.exit) due = std::min({due, run.limit_at, run.kill_at});
  }
  return due;
}

void ChaosNode::CheckSupervisors() {
  RepeatLost();
  KeepTimeOfAdopted();
  std::vector<std::pair<JobId, std::uint32_t>> suspects;
  for (const auto& [job, run] : runs_) {
    if (run.is_adopted || run.file.exit) continue;
    if (run.file.watcher == 0 || !Send(run, CommandMessage::Kind::kPing)) suspects.emplace_back(job, run.file.attempt);
  }
  for (const auto& [job, attempt] : suspects) {
    const auto record = machine_.Read(job);
    const bool is_waited_for = unconfirmed_.contains({job, attempt});
    if (!record) continue;
    if (record->first.attempt != attempt && record->first.attempt != 0) continue;
    switch (record->second) {
      case RunState::kWatched:
        break;
      case RunState::kEnded:
        runs_.at(job).file = record->first;
        OnEnded(record->first);
        break;
      case RunState::kOrphaned:
        AdoptOrphan(record->first);
        break;
      case RunState::kVanished:
        if (EndLeftovers(record->first)) OnVanished(record->first, attempt);
        break;
      case RunState::kNeverStarted:
        if (is_waited_for || mutation_ == ChaosMutation::kForgetsVoidNominations)
          break;  // The launcher repeats the launch.
        machine_.Remove(job);
        runs_.erase(job);
        controller_.OnVanished(job, attempt, Controller::Vanished::kNeverStarted, ports_.now());
        ports_.touch();
        break;
    }
  }
}

void ChaosNode::AdoptRuns(bool was_rebooted) {
  const auto records = machine_.Scan();
  const auto never_started = [&](JobId job, std::uint32_t attempt) {
    controller_.OnVanished(job, attempt,
                           was_rebooted ? Controller::Vanished::kRebooted : Controller::Vanished::kNeverStarted,
                           ports_.now());
  };
  std::map<JobId, std::uint32_t> expected;
  for (const auto& [id, record] : controller_.live()) {
    if (IsActive(record.state) && record.array_count == 0) expected.emplace(id, record.attempt);
  }
  for (const auto& [file, as_it_is] : records) {
    const auto active = expected.find(file.job);
    RunState state = as_it_is;
    if (was_rebooted && (state == RunState::kWatched || state == RunState::kOrphaned)) state = RunState::kVanished;
    const bool is_ours = active != expected.end() && (file.attempt == active->second || file.attempt == 0);
    if (!is_ours) {
      Run stray;
      stray.file = file;
      if (state == RunState::kWatched) Send(stray, CommandMessage::Kind::kStop, SIGKILL, Duration(0));
      if (state == RunState::kOrphaned) EndLeftovers(file);
      machine_.Remove(file.job);
      continue;
    }
    const std::uint32_t attempt = active->second;
    expected.erase(active);
    Run& run = runs_[file.job];
    run.file = file;
    run.file.attempt = attempt;
    switch (state) {
      case RunState::kWatched:
        LoadStopTerms(run);
        if (file.names_process) controller_.OnStarted(file.job, attempt, file.started);
        if (file.watcher != 0) Send(run, CommandMessage::Kind::kPing);
        Remind(run);
        break;
      case RunState::kEnded:
        controller_.OnExited(file.job, attempt, *file.exit, file.ended, ports_.now());
        break;
      case RunState::kOrphaned:
        AdoptOrphan(file);
        break;
      case RunState::kVanished:
        if (!was_rebooted && !EndLeftovers(file)) break;  // CheckSupervisors repeats this until nothing is left.
        run.file.exit = UnknownExit();
        controller_.OnVanished(file.job, attempt,
                               was_rebooted ? Controller::Vanished::kRebooted : Controller::Vanished::kUnseen,
                               ports_.now());
        break;
      case RunState::kNeverStarted:
        machine_.Remove(file.job);
        runs_.erase(file.job);
        never_started(file.job, attempt);
        break;
    }
  }
  for (const auto& [job, attempt] : expected) never_started(job, attempt);
  ports_.touch();
}

std::set<JobId> ChaosNode::known() const {
  std::set<JobId> jobs;
  for (const auto& [job, run] : runs_) {
    if (run.file.watcher != 0 || run.is_adopted) jobs.insert(job);
  }
  return jobs;
}

}  // namespace divvy::simulate
