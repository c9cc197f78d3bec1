// Runs whose daemon, launcher, supervisor or guard was killed: finds out their state, and continues them.
#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include "control/books/record_parts.h"
#include "driver/node_driver.h"

namespace divvy {
namespace {

// A foreground job waits this long after a restart for the client that runs it, which tries to reach the new daemon
// about once a second. The job's GPUs stay idle meanwhile.
constexpr Duration kCallersReturnWithin = std::chrono::seconds(10);

}  // namespace

void NodeDriver::Remind(Run& run) {
  const JobRecord* live = controller_->Find(run.record.job);
  if (live == nullptr || live->attempt != run.record.attempt) return;
  // The keeper is asked only later. Until then, a parked job must not touch GPUs that others have.
  run.is_displaced |= HasLeftItsGpus(*live);
  // A command that is stored may never have been sent, so it is sent again. Sending it twice does no harm.
  DeliverSoon(run, PauseCommand{live->id, live->state == JobState::kPaused || run.is_displaced, ""});
  DeliverSoon(run, TimeLimitCommand{live->id, Deadline(*live)});
  if (live->takes_resizes) {
    const GpuSet usable = host_.GpusHere(*live) - live->gpus_asked_back;
    DeliverSoon(run, ResizeCommand{live->id, usable, usable != live->gpus_used});
  }
  // A confirmed stop of the job may never have been sent, so it is sent again. A gang's node allocation is also stopped
  // because another one has ended, without any stop request.
  const bool is_to_end = live->stop_intent != StopIntent::kNone || live->state == JobState::kStopping;
  if (is_to_end) DeliverSoon(run, StopCommand{live->id, 0, Duration(-1), ""});
}

void NodeDriver::AdoptOrphan(const RunRecord& record) {
  Run& run = runs_[record.job];
  run.record = record;
  run.record.control.clear();
  if (!host_.Adopt(record)) {
    if (run.found || host_.EndLeftovers(record)) OnVanished(record, record.attempt);
    return;
  }
  run.is_adopted = true;
  if (record.is_part) run.record = host_.LookAtPart(run.record);
  const JobRecord* live = controller_->Find(record.job);
  if (live == nullptr) return;
  SayState(run);
  LoadStopTerms(run);
  if (LimitOnNode(*live) > Duration(0) && run.record.has_started())
    run.limit_at = AddSaturating(run.record.started, LimitOnNode(*live));
  Remind(run);
}

void NodeDriver::OnAdoptedEnded(JobId job) {
  const auto at = runs_.find(job);
  if (at == runs_.end() || !at->second.is_adopted) return;
  Run& run = at->second;
  const auto exit = host_.ExitOfAdopted(run.record);
  if (!exit) return;
  run.record.exit = exit;
  run.record.exit->hit_time_limit = run.hit_limit;
  run.record.ended = controller_->Now();
  // The job's first process has ended. Processes that it left behind are killed, and the job's GPUs stay in use until
  // they have ended.
  run.awaits_leftovers = host_.SignalAdopted(run.record, SIGKILL, SignalReach::kTree) > 0;
  if (!run.awaits_leftovers) OnEnded(RunRecord(run.record));
}

// Handles a run of which no process is left: neither supervisor, guard, first process nor processes that it left
// behind. The GPUs are released when the GPU driver shows that they are free.
void NodeDriver::OnVanished(const RunRecord& record, std::uint32_t attempt) {
  host_.Confirm(record.job, attempt);
  Run& run = runs_[record.job];
  run.record = record;
  run.record.attempt = attempt;
  run.is_adopted = false;
  host_.DropAdopted(record.job);
  run.record.exit = Exit{.is_known = false};
  run.record.ended = controller_->Now();
  OnEnded(RunRecord(run.record));
}

void NodeDriver::LoadStopTerms(Run& run) {
  const JobRecord* live = controller_->Find(run.record.job);
  if (live == nullptr) return;
  const auto spec = controller_->SpecOf(*live);
  if (!spec) return;
  run.stop_signal = (*spec)->stop_signal;
  run.resize_signal = (*spec)->resize_signal;
  run.grace = GraceOf(**spec);
}

void NodeDriver::KeepTimeOfAdopted() {
  const Time now = controller_->Now();
  std::vector<RunRecord> ended;
  for (auto& [job, run] : runs_) {
    if (!run.is_adopted) continue;
    if (run.awaits_leftovers) {
      run.awaits_leftovers = host_.SignalAdopted(run.record, SIGKILL, SignalReach::kTree) > 0;
      if (!run.awaits_leftovers) ended.push_back(run.record);
      continue;
    }
    if (run.record.exit) continue;
    if (run.record.awaits_go() && run.record.port == 0) {
      run.record = host_.LookAtPart(run.record);
      SayState(run);
    }
    run.hit_limit |= run.limit_at <= now;
    if (run.limit_at <= now) Deliver(run, StopCommand{job, 0, Duration(-1)});
    if (run.kill_at <= now) host_.SignalAdopted(run.record, SIGKILL, SignalReach::kTree);
  }
  for (const RunRecord& record : ended) OnEnded(record);
}

Time NodeDriver::next_due() const {
  Time due = kNever;
  for (const auto& [job, run] : runs_) {
    if (run.is_adopted && !run.record.exit) due = std::min({due, run.limit_at, run.kill_at});
  }
  return due;
}

void NodeDriver::CheckSupervisors() {
  host_.RepeatLost();
  KeepTimeOfAdopted();
  FailUnclaimed();
  std::vector<JobId> suspects;
  for (const auto& [job, run] : runs_) {
    if (run.is_adopted || run.record.exit) continue;
    // Also suspects supervisors that have not reported where they take commands: they may have been killed before they
    // could.
    if (!IsListening(run.record) || !host_.Ping(run.record)) suspects.push_back(job);
  }
  if (suspects.empty()) return;
  const auto records = host_.Scan();
  if (!records) return;
  for (const RunRecord& record : *records) {
    const auto run = runs_.find(record.job);
    if (run == runs_.end() || !std::ranges::count(suspects, record.job)) continue;
    const std::uint32_t attempt = run->second.record.attempt;
    if (record.attempt != attempt && record.attempt != 0) continue;
    switch (host_.StateOf(record)) {
      case RunState::kWatched: {
        // A report of a supervisor that was killed may have arrived after that of its guard. Otherwise the run is about
        // to end, and its report will arrive.
        const bool is_another = record.supervisor != run->second.record.supervisor;
        if (is_another && record.attempt == attempt && IsListening(record) && !record.exit)
          OnReport(Report::kAlive, record);
        break;
      }
      case RunState::kEnded:
        run->second.record = record;
        OnEnded(record);
        break;
      case RunState::kOrphaned:
        AdoptOrphan(record);
        break;
      case RunState::kVanished:
        if (run->second.found || host_.EndLeftovers(record)) OnVanished(record, attempt);
        break;
      case RunState::kNeverStarted:
        if (host_.IsPending(record.job, attempt)) break;  // The launcher repeats the launch.
        // The launcher of an earlier daemon had passed the launch on, and its supervisor was killed before its first
        // report.
        host_.RemoveRecord(record);
        runs_.erase(run);
        SayVanished(record.job, attempt, RunVanished::kNeverStarted);
        break;
    }
  }
}

Status NodeDriver::AdoptRuns(bool was_rebooted) {
  DIVVY_TRY(const std::vector<RunRecord> records, host_.Scan());
  has_adopted_ = true;
  was_rebooted_ = was_rebooted;
  callers_return_until_ = controller_->Now() + kCallersReturnWithin;
  std::map<JobId, std::uint32_t> expected;
  for (const JobId job : controller_->ActiveRuns()) expected.emplace(job, controller_->Find(job)->attempt);
  std::vector<const RunRecord*> others;
  for (const RunRecord& record : records) {
    const auto active = expected.find(record.job);
    // A record without an attempt belongs to a supervisor that was killed before its first report.
    if (active == expected.end() || (record.attempt != active->second && record.attempt != 0)) {
      others.push_back(&record);
      continue;
    }
    const std::uint32_t attempt = active->second;
    expected.erase(active);
    TakeOn(record, attempt);
  }
  // Jobs without any record release their GPUs before other runs are found on them.
  for (auto active = expected.begin(); active != expected.end();) {
    const bool has_record = std::ranges::any_of(others, [&](const auto* other) { return other->job == active->first; });
    if (!has_record) OnNeverStarted(active->first, active->second);
    active = has_record ? std::next(active) : expected.erase(active);
  }
  for (const RunRecord* record : others) {
    if (FindRun(*record, expected)) expected.erase(record->job);
  }
  for (const auto& [job, attempt] : expected) OnNeverStarted(job, attempt);
  was_rebooted_ = false;
  return {};
}

bool NodeDriver::FindRun(RunRecord record, const std::map<JobId, std::uint32_t>& expected) {
  auto identified = host_.AwaitProcess(std::move(record));
  if (!identified) return false;
  record = *std::move(identified);
  const RunState state = host_.StateOf(record);
  const auto active = expected.find(record.job);
  const bool is_earlier = active != expected.end() && record.attempt < active->second;
  const auto end = [&] {
    if (state == RunState::kWatched) host_.Stop(record, SIGKILL, Duration(0));
    if (state == RunState::kOrphaned) host_.EndLeftovers(record);
    host_.RemoveRecord(record);
    runs_.erase(record.job);
    return false;
  };
  if (state == RunState::kNeverStarted || is_earlier) return end();
  Run& run = runs_[record.job];
  run.record = record;
  if (!ReportFound(run, record)) {
    run.found.reset();
    if (active != expected.end() || !record.exit) return end();
    // The controller may not have stored the end of the run. So it is reported again, and the run record is removed
    // when the controller sends a ForgetCommand.
    SayEnded(record, *record.exit);
    return false;
  }
  if (!record.exit) TakeOn(record, record.attempt);  // Otherwise everything is reported.
  const JobRecord* live = controller_->Find(record.job);
  return live != nullptr && live->attempt == record.attempt;
}

void NodeDriver::TakeOn(const RunRecord& record, std::uint32_t attempt) {
  RunState state = host_.StateOf(record);
  // After a reboot a pid may belong to another process.
  if (was_rebooted_ && (state == RunState::kWatched || state == RunState::kOrphaned)) state = RunState::kVanished;
  switch (state) {
    case RunState::kWatched: {
      Run& run = runs_[record.job];
      run.record = record;
      // The supervisor reports its attempt when it has started; until then its record may be empty.
      run.record.attempt = attempt;
      LoadStopTerms(run);
      SayState(run);
      host_.Ping(record);  // Its report may have gone to the previous daemon.
      Remind(run);
      break;
    }
    case RunState::kEnded:
      runs_[record.job].record = record;
      SayEnded(record, *record.exit);
      break;
    case RunState::kOrphaned:
      AdoptOrphan(record);
      break;
    case RunState::kVanished:
      if (!was_rebooted_ && !runs_[record.job].found && !host_.EndLeftovers(record)) {
        runs_[record.job].record = record;  // CheckSupervisors continues until nothing is left.
        runs_[record.job].record.attempt = attempt;
        break;
      }
      // The run record is removed when the controller has stored the end. Without it, the next daemon would think that
      // the job never started.
      runs_[record.job].record = record;
      runs_[record.job].record.attempt = attempt;
      runs_[record.job].record.exit = Exit{.is_known = false};
      SayVanished(record.job, attempt, was_rebooted_ ? RunVanished::kRebooted : RunVanished::kUnseen);
      break;
    case RunState::kNeverStarted:
      host_.RemoveRecord(record);
      OnNeverStarted(record.job, attempt);
      break;
  }
}

// --- Runs that the controller does not know -------------------------------------------------------------------------

bool NodeDriver::ReportFound(Run& run, const RunRecord& record) {
  run.found = std::make_unique<RunDescription>(host_.Describe(record));
  run.stop_signal = run.found->spec.stop_signal;
  run.grace = GraceOf(run.found->spec);
  if (!controller_->OnFound(*run.found)) return false;
  const JobRecord& job = run.found->record;
  const auto since = std::chrono::floor<std::chrono::seconds>(job.started.time_since_epoch()).count();
  host_.Note("event=found_run job=" + ToString(record.job) + " attempt=" + std::to_string(record.attempt) +
             " uid=" + std::to_string(job.user.uid) + " user=" + job.user.name + " gpus=" + GpuListText(job.gpus) +
             " since=" + std::to_string(since) + " what=\"the controller did not name it; it is left alone\"");
  return true;
}

void NodeDriver::AdoptFound(const AdoptCommand& command) {
  const auto at = runs_.find(command.record.id);
  if (at == runs_.end() || at->second.record.attempt != command.record.attempt || !at->second.found) return;
  Run& run = at->second;
  run.found.reset();
  LoadStopTerms(run);
  if (run.record.exit && !run.awaits_leftovers) return SayEnded(run.record, *run.record.exit);
  if (run.is_adopted && LimitOnNode(command.record) > Duration(0) && run.record.has_started())
    run.limit_at = AddSaturating(run.record.started, LimitOnNode(command.record));
  SayState(run);
  Remind(run);
}

// The launch of a foreground job is only awaited, because its caller will request it again.
void NodeDriver::OnNeverStarted(JobId job, std::uint32_t attempt) {
  const JobRecord* live = controller_->Find(job);
  const bool has_caller = live != nullptr && live->is_foreground && live->gang.empty();
  if (has_caller && !was_rebooted_ && live->stop_intent == StopIntent::kNone) {
    auto spec = controller_->SpecOf(*live);
    // An agent may know no more of the job than how to stop it.
    const bool is_whole = spec && (!(*spec)->command.empty() || !(*spec)->script.empty());
    if (is_whole) return AwaitCaller(LaunchCommand{*live, "", 0}, *std::move(spec));
  }
  SayVanished(job, attempt, was_rebooted_ ? RunVanished::kRebooted : RunVanished::kNeverStarted);
}

void NodeDriver::Reconcile() {
  callers_return_until_ = controller_->Now() + kCallersReturnWithin;
  std::set<JobId> expected;
  for (const JobId job : controller_->ActiveRuns()) {
    if (!unclaimed_.contains(job)) expected.insert(job);
  }
  for (auto& [job, run] : runs_) {
    const JobRecord* live = controller_->Find(job);
    const bool is_ours = live != nullptr && IsActive(live->state) && live->attempt == run.record.attempt;
    if (is_ours) expected.erase(job);
    if (is_ours) run.found.reset();
    const bool has_ended = run.record.exit && !run.awaits_leftovers;
    if (!is_ours) {
      // The run record on disk has more information than the supervisor's reports.
      const auto kept = host_.Read(job);
      RunRecord record = kept && kept->attempt == run.record.attempt ? *kept : run.record;
      record.exit = has_ended ? run.record.exit : std::nullopt;
      record.ended = run.record.ended;
      if (ReportFound(run, record)) continue;
      run.found.reset();
    }
    if (run.record.exit) {
      if (has_ended) SayEnded(run.record, *run.record.exit);
      continue;
    }
    if (!is_ours) {
      // The controller does not want this run. Its end is reported like any other, and its record is removed on a
      // ForgetCommand.
      DeliverSoon(run, StopCommand{job, SIGKILL, Duration(0)});
      continue;
    }
    SayState(run);
    Remind(run);
  }
  for (const JobId job : expected) OnNeverStarted(job, controller_->Find(job)->attempt);
}

}  // namespace divvy
