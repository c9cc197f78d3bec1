#include "driver/node_driver.h"

#include <algorithm>
#include <csignal>
#include <utility>
#include <variant>

#include "control/books/record_parts.h"

namespace divvy {

const NodeDriver::Run* NodeDriver::Find(JobId job) const {
  const auto run = runs_.find(job);
  return run == runs_.end() ? nullptr : &run->second;
}

// --- Launches -------------------------------------------------------------------------------------------------------

void NodeDriver::Launch(const LaunchCommand& command, const std::shared_ptr<const JobSpec>& spec) {
  const JobRecord& record = command.record;
  if (spec == nullptr) return FailLaunch(record, "its specification could not be read from the store");
  if (spec->is_foreground && command.allocation_index == 0 && !host_.HasCaller(record.id))
    return AwaitCaller(command, spec);
  auto launched = host_.Launch(command, *spec);
  if (const auto* why = std::get_if<Exit>(&launched)) return Fail(record.id, record.attempt, *why);
  Run run;
  run.record = std::get<RunRecord>(std::move(launched));
  run.stop_signal = spec->stop_signal;
  run.resize_signal = spec->resize_signal;
  run.grace = GraceOf(*spec);
  runs_.insert_or_assign(record.id, std::move(run));
}

void NodeDriver::Fail(JobId job, std::uint32_t attempt, const Exit& why) {
  runs_.erase(job);
  host_.DropCaller(job);
  host_.OnOver(job, attempt);
  controller_->OnExited(job, attempt, why, controller_->Now());
}

void NodeDriver::FailLaunch(const JobRecord& record, const std::string& why) {
  Exit exit;
  exit.code = 127;
  exit.failure = why;
  Fail(record.id, record.attempt, exit);
}

void NodeDriver::OnCaller(JobId job) {
  if (auto waiting = unclaimed_.extract(job)) Launch(waiting.mapped().command, waiting.mapped().spec);
}

// The previous daemon had the input and output streams of the client that runs this foreground job. The client still
// has them and will connect again, so the launch waits for it.
void NodeDriver::AwaitCaller(const LaunchCommand& command, std::shared_ptr<const JobSpec> spec) {
  const Time now = controller_->Now();
  const Time until = std::max(callers_return_until_, now + options_.awaits_callers);
  if (now >= until) return FailLaunch(command.record, "its terminal is gone");
  unclaimed_.insert_or_assign(command.record.id, Unclaimed{command, std::move(spec), until});
}

void NodeDriver::FailUnclaimed() {
  std::vector<JobRecord> gone;
  std::erase_if(unclaimed_, [&](const auto& waiting) {
    if (controller_->Now() < waiting.second.until) return false;
    gone.push_back(waiting.second.command.record);
    return true;
  });
  for (const JobRecord& record : gone) FailLaunch(record, "its terminal is gone");
}

void NodeDriver::OnRefused(JobId job, std::uint32_t attempt, const Exit& why) {
  const auto run = runs_.find(job);
  if (run != runs_.end() && run->second.record.attempt == attempt) Fail(job, attempt, why);
}

// --- Commands -------------------------------------------------------------------------------------------------------

void NodeDriver::Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) {
  if (const auto* launch = std::get_if<LaunchCommand>(&command)) return Launch(*launch, spec);
  if (const auto* forget = std::get_if<ForgetCommand>(&command)) return Forget(forget->job, forget->attempt);
  if (const auto* adopt = std::get_if<AdoptCommand>(&command)) return AdoptFound(*adopt);
  const JobId job = JobOf(command);
  if (std::holds_alternative<StopCommand>(command)) {
    if (const auto waiting = unclaimed_.extract(job))
      return FailLaunch(waiting.mapped().command.record, "stopped before it started");
  }
  const auto run = runs_.find(job);
  if (run != runs_.end()) return DeliverSoon(run->second, command);
  // The run has ended meanwhile.
  if (std::holds_alternative<GoCommand>(command))
    host_.Note("event=go_ignored job=" + ToString(job) + " reason=\"not here\"");
}

void NodeDriver::DeliverSoon(Run& run, const NodeCommand& command) {
  if (IsListening(run.record) || run.is_adopted) Deliver(run, command);
  else run.waiting.push_back(command);
}

void NodeDriver::Deliver(Run& run, const NodeCommand& command) {
  const RunRecord& record = run.record;
  if (const auto* stop = std::get_if<StopCommand>(&command)) {
    const int signal = stop->signal != 0 ? stop->signal : run.stop_signal;
    const Duration grace = stop->grace >= Duration(0) ? stop->grace : run.grace;
    if (!run.is_adopted) return host_.Stop(record, signal, grace);
    host_.SignalAdopted(record, grace > Duration(0) ? signal : SIGKILL, SignalReach::kTree);
    host_.SignalAdopted(record, SIGCONT, SignalReach::kTree);
    run.kill_at = std::min(run.kill_at, AddSaturating(controller_->Now(), grace));
    run.limit_at = kNever;
  } else if (const auto* send = std::get_if<SignalCommand>(&command)) {
    const bool is_first = send->reach == SignalReach::kFirstProcess;
    if (!run.is_adopted) host_.Signal(record, send->signal, send->reach);
    else host_.SignalAdopted(record, send->signal, is_first ? send->reach : SignalReach::kTree);
  } else if (const auto* displace = std::get_if<DisplaceCommand>(&command)) {
    if (displace->attempt != record.attempt) return;
    const JobRecord* live = controller_->Find(displace->job);
    run.is_displaced = displace->is_displaced;
    const bool is_paused = live != nullptr && live->state == JobState::kPaused;
    Deliver(run, PauseCommand{displace->job, is_paused || run.is_displaced, ""});
  } else if (const auto* pause = std::get_if<PauseCommand>(&command)) {
    // A job that is parked for another one is continued when it returns to its GPUs.
    if (!pause->is_paused && run.is_displaced) return;
    if (run.is_adopted) host_.SignalAdopted(record, pause->is_paused ? SIGSTOP : SIGCONT, SignalReach::kTree);
    else if (pause->is_paused) host_.Pause(record);
    else host_.Continue(record);
  } else if (const auto* resize = std::get_if<ResizeCommand>(&command)) {
    host_.SetGpusFile(resize->job, resize->gpus);
    if (!resize->is_signalled || run.resize_signal == 0) return;
    if (run.is_adopted) host_.SignalAdopted(record, run.resize_signal, SignalReach::kFirstProcess);
    else host_.Signal(record, run.resize_signal, SignalReach::kFirstProcess);
  } else if (const auto* limit = std::get_if<TimeLimitCommand>(&command)) {
    const JobRecord* live = controller_->Find(limit->job);
    if (live == nullptr) return;
    const Duration most = LimitOnNode(*live);
    if (!run.is_adopted) host_.SetTimeLimit(record, most);
    else if (!record.awaits_go()) run.limit_at = most > Duration(0) ? AddSaturating(record.started, most) : kNever;
  } else if (const auto* go = std::get_if<GoCommand>(&command)) {
    LetGo(run, *go);
  }
}

void NodeDriver::LetGo(Run& run, const GoCommand& command) {
  const JobRecord* live = controller_->Find(command.job);
  const auto ignored = [&](const std::string& why) {
    host_.Note("event=go_ignored job=" + ToString(command.job) + " attempt=" + std::to_string(command.attempt) +
               " reason=\"" + why + "\"");
  };
  if (run.record.attempt != command.attempt) return ignored("another attempt is here");
  if (!run.record.awaits_go()) return;
  if (live == nullptr || live->gang.size() != command.addresses.size()) return ignored("its machines are not known");
  if (const Status staged = host_.StageGo(run.record, *live, command); !staged) {
    run.failure = staged.error().message;
    return Deliver(run, StopCommand{command.job, SIGKILL, Duration(0), ""});
  }
  run.was_let_go = true;
  if (!run.is_adopted) return host_.Go(run.record);  // A guard that takes over is told again.
  run.record = host_.LookAtPart(run.record);
  SayState(run);
  Deliver(run, TimeLimitCommand{command.job, kNever, ""});
}

void NodeDriver::Forget(JobId job, std::uint32_t attempt) {
  const auto run = runs_.find(job);
  if (run == runs_.end() || run->second.record.attempt != attempt) return;
  host_.RemoveRecord(run->second.record);
  runs_.erase(run);
}

// --- Reports --------------------------------------------------------------------------------------------------------

void NodeDriver::SayState(const Run& run) {
  const RunRecord& record = run.record;
  if (!record.delay.empty()) return controller_->OnDelayed(record.job, record.attempt, record.delay);
  if (record.has_started()) return controller_->OnStarted(record.job, record.attempt, record.started);
  if (!record.awaits_go() || record.port == 0) return;
  // The supervisor that got the GoCommand (the start of a prepared multi-node job) was killed, so it is sent to its
  // successor.
  if (run.was_let_go && !run.is_adopted) return host_.Go(record);
  controller_->OnPrepared(record.job, record.attempt, record.port);
}

void NodeDriver::OnReport(Report report, const RunRecord& record) {
  // A delayed launch may be lost together with its supervisor, and is then repeated.
  if (report != Report::kDelayed) host_.Confirm(record.job, record.attempt);
  const auto run = runs_.find(record.job);
  if (run != runs_.end() && run->second.found && run->second.record.attempt == 0) {
    // The run record was empty when it was found. The report now tells to which run it belongs.
    if (const auto kept = host_.Read(record.job)) {
      run->second.record.attempt = kept->attempt;
      ReportFound(run->second, *kept);
    }
  }
  if (run == runs_.end() || run->second.record.attempt != record.attempt) {
    // Before AdoptRuns, no run is known; the records on disk hold their exits.
    if (!has_adopted_) return;
    // A guard may repeat a report of its supervisor; by then the record may belong to a later attempt.
    const auto there = host_.Read(record.job);
    const bool is_it = there && there->attempt == record.attempt;
    if (report == Report::kExited && is_it) host_.RemoveRecord(record);
    return;
  }
  const ProcessIdentity before = std::exchange(run->second.record, record).supervisor;
  if (report == Report::kExited) return OnEnded(record);
  if (std::exchange(run->second.is_adopted, false)) host_.DropAdopted(record.job);
  if (before.pid != 0 && before != record.supervisor) Remind(run->second);
  SayState(run->second);
  for (const NodeCommand& command : std::exchange(run->second.waiting, {})) Deliver(run->second, command);
}

void NodeDriver::OnEnded(const RunRecord& record) {
  // An unconfirmed launch would be repeated once its record is gone, however the end was found.
  host_.Confirm(record.job, record.attempt);
  const JobRecord* live = controller_->Find(record.job);
  const Run* run = Find(record.job);
  host_.CleanUp(record, live == nullptr ? GpuSet() : host_.GpusHere(*live),
                [this, record, failure = run == nullptr ? "" : run->failure](Exit exit) {
                  if (exit.failure.empty()) exit.failure = failure;
                  SayEnded(record, exit);
                });
}

// A run that was stopped by the lease has not failed. It is queued again as if the controller had waited for it.
void NodeDriver::SayVanished(JobId job, std::uint32_t attempt, RunVanished how) {
  host_.OnOver(job, attempt);
  if (const auto run = runs_.find(job); run != runs_.end() && run->second.found) {
    run->second.found->exit = Exit{.is_known = false};
    run->second.found->ended = controller_->Now();
    controller_->OnFound(*run->second.found);
    return;
  }
  controller_->OnVanished(job, attempt, how);
}

void NodeDriver::SayEnded(const RunRecord& record, const Exit& exit) {
  if (const auto run = runs_.find(record.job); run != runs_.end() && run->second.found) {
    host_.OnOver(record.job, record.attempt);
    run->second.found->exit = exit;
    run->second.found->ended = record.ended;
    controller_->OnFound(*run->second.found);
    return;
  }
  if (record.was_cut_off) return SayVanished(record.job, record.attempt, RunVanished::kCutOff);
  host_.OnOver(record.job, record.attempt);
  Exit told = exit;
  told.steps = host_.KeptStepsOf(record);
  controller_->OnExited(record.job, record.attempt, told, record.ended);
}

}  // namespace divvy
