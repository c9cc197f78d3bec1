// Runs whose daemon, launcher, supervisor or guard was killed: finds out their state, and continues them.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "daemon/node/node.h"
#include "model/steps/step_list.h"
#include "platform/os/process_tree.h"
#include "platform/records/step_list_file.h"
#include "wire/messages/agent_codec.h"
#include "wire/messages/agent_messages.h"

namespace divvy {
namespace {

// A caller tries to reach the new daemon about once a second. The job's GPUs stay idle meanwhile.
constexpr Duration kCallersReturnWithin = std::chrono::seconds(10);

// The usual limit from a supervisor's claim on its record to its job's start, unless a file system hangs.
constexpr auto kStartsWithin = std::chrono::seconds(1);

Exit UnknownExit() {
  Exit exit;
  exit.is_known = false;
  return exit;
}

}  // namespace

void Node::Remind(Run& run) {
  const JobRecord* live = controller_->Find(run.record.job);
  if (live == nullptr || live->attempt != run.record.attempt) return;
  const auto say = [&](const NodeCommand& order) {
    if (IsListening(run.record) || run.adopted) Deliver(run, order);
    else run.waiting.push_back(order);
  };
  // A durable command may never have been sent. Sending it twice does no harm.
  say(PauseCommand{live->id, live->state == JobState::kPaused, ""});
  say(TimeLimitCommand{live->id, Deadline(*live)});
  if (live->takes_resizes) {
    const GpuSet usable = GpusHere(*live) - live->gpus_asked_back;
    say(ResizeCommand{live->id, usable, usable != live->gpus_used});
  }
  // An acknowledged stop may never have been sent; sending it twice does no harm. A gang's node allocation is also
  // stopped because another one has ended, without any stop request.
  const bool is_to_end = live->stop_intent != StopIntent::kNone || live->state == JobState::kStopping;
  if (is_to_end) say(StopCommand{live->id, 0, Duration(-1), ""});
}

void Node::AdoptOrphan(const RunRecord& record) {
  Run& run = runs_[record.job];
  run.record = record;
  run.record.control.clear();
  auto process = AdoptedProcess::Open(record.process);
  if (!process) {
    if (run.found || errands_.EndLeftovers(record)) OnVanished(record, record.attempt);
    return;
  }
  run.adopted = std::make_unique<AdoptedProcess>(*std::move(process));
  if (record.is_part) LookAtAdoptedPart(run);
  if (const JobRecord* live = controller_->Find(record.job); live != nullptr) {
    SayState(run);
    LoadStopTerms(run);
    if (live->time_limit > Duration(0) && run.record.has_started())
      run.limit_at = AddSaturating(run.record.started, live->time_limit);
    Remind(run);
  }
  watch_(run.adopted->fd(), [this, job = record.job] {
    const auto at = runs_.find(job);
    if (at == runs_.end() || !at->second.adopted) return;
    const auto exit = errands_.ExitOfAdopted(at->second.record.job, *at->second.adopted);
    if (!exit) return;
    Run& ended = at->second;
    ended.record.exit = exit;
    ended.record.exit->hit_time_limit = ended.hit_limit;
    ended.record.ended = controller_->Now();
    // Processes that the job left behind must not hold the GPU, but do so until they have ended.
    ended.awaits_leftovers = SignalAdopted(ended, SIGKILL, OrphanReach::kTree) > 0;
    if (!ended.awaits_leftovers) OnEnded(ended.record);
  });
}

// A run that was stopped by the lease has not failed. It is queued again as if the controller had waited for it.
void Node::SayVanished(JobId job, std::uint32_t attempt, RunVanished how) {
  if (over_) over_(job, attempt);
  if (const auto run = runs_.find(job); run != runs_.end() && run->second.found) {
    run->second.found->exit = UnknownExit();
    run->second.found->ended = controller_->Now();
    controller_->OnFound(*run->second.found);
    return;
  }
  controller_->OnVanished(job, attempt, how);
}

void Node::SayEnded(const RunRecord& record, const Exit& exit) {
  if (const auto run = runs_.find(record.job); run != runs_.end() && run->second.found) {
    if (over_) over_(record.job, record.attempt);
    run->second.found->exit = exit;
    run->second.found->ended = record.ended;
    controller_->OnFound(*run->second.found);
    return;
  }
  if (record.was_cut_off) return SayVanished(record.job, record.attempt, RunVanished::kCutOff);
  if (over_) over_(record.job, record.attempt);
  Exit told = exit;
  told.steps = KeptSteps(ReadStepListFile(StepListPath(options_.run_directory, record.uid, record.job.value())));
  controller_->OnExited(record.job, record.attempt, told, record.ended);
}

// Supervisor, guard, first process and all left-over processes are gone. The GPUs are released when the driver confirms
// it.
void Node::OnVanished(const RunRecord& record, std::uint32_t attempt) {
  launcher_.Confirm(record.job, attempt);
  Run& run = runs_[record.job];
  run.record = record;
  run.record.attempt = attempt;
  run.adopted.reset();
  run.record.exit = UnknownExit();
  run.record.ended = controller_->Now();
  OnEnded(run.record);
}

void Node::LoadStopTerms(Run& run) {
  const JobRecord* live = controller_->Find(run.record.job);
  if (live == nullptr) return;
  const auto spec = controller_->SpecOf(*live);
  if (!spec) return;
  run.stop_signal = (*spec)->stop_signal;
  run.resize_signal = (*spec)->resize_signal;
  run.grace = options_.GraceOf(**spec);
}

void Node::KeepTimeOfAdopted() {
  const Time now = controller_->Now();
  for (auto& [job, run] : runs_) {
    if (!run.adopted) continue;
    if (run.awaits_leftovers) {
      run.awaits_leftovers = SignalAdopted(run, SIGKILL, OrphanReach::kTree) > 0;
      if (!run.awaits_leftovers) OnEnded(run.record);
      continue;
    }
    if (run.record.exit) continue;
    if (run.record.awaits_go() && run.record.port == 0) {
      LookAtAdoptedPart(run);
      SayState(run);
    }
    run.hit_limit |= run.limit_at <= now;
    if (run.limit_at <= now) Deliver(run, StopCommand{job, 0, Duration(-1)});
    if (run.kill_at <= now) SignalAdopted(run, SIGKILL, OrphanReach::kTree);
  }
}

void Node::CheckSupervisors() {
  launcher_.RepeatLost();
  KeepTimeOfAdopted();
  FailUnclaimed();
  std::vector<JobId> suspects;
  for (const auto& [job, run] : runs_) {
    if (run.adopted || run.record.exit) continue;
    // A supervisor that has not reported where it listens may have been killed before it could.
    if (!IsListening(run.record) || !SendPing(run.record)) suspects.push_back(job);
  }
  if (suspects.empty()) return;
  auto records = ScanRunDirectory(options_.run_directory);
  if (!records) return;
  for (const RunRecord& record : *records) {
    const auto run = runs_.find(record.job);
    if (run == runs_.end() || !std::ranges::count(suspects, record.job)) continue;
    const std::uint32_t attempt = run->second.record.attempt;
    if (record.attempt != attempt && record.attempt != 0) continue;
    switch (StateOf(record)) {
      case RunState::kWatched:
        break;  // It is about to end; its report will arrive.
      case RunState::kEnded:
        run->second.record = record;
        OnEnded(record);
        break;
      case RunState::kOrphaned:
        AdoptOrphan(record);
        break;
      case RunState::kVanished:
        if (run->second.found || errands_.EndLeftovers(record)) OnVanished(record, attempt);
        break;
      case RunState::kNeverStarted:
        if (launcher_.IsPending(record.job, attempt)) break;  // The launcher repeats the launch.
        // The launcher of an earlier daemon had passed the launch on, and its supervisor was killed before its first
        // report.
        launcher_.RemoveRecord(record);
        runs_.erase(run);
        SayVanished(record.job, attempt, RunVanished::kNeverStarted);
        break;
    }
  }
}

Status Node::AdoptRuns(bool was_rebooted) {
  DIVVY_TRY(const std::vector<RunRecord> records, ScanRunDirectory(options_.run_directory));
  has_adopted_ = true;
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
    TakeOn(record, attempt, was_rebooted);
  }
  // Jobs without any record release their GPUs before other runs are found on them.
  for (auto active = expected.begin(); active != expected.end();) {
    const bool has_record = std::ranges::any_of(others, [&](const auto* other) { return other->job == active->first; });
    if (!has_record) OnNeverStarted(active->first, active->second, was_rebooted);
    active = has_record ? std::next(active) : expected.erase(active);
  }
  for (const RunRecord* record : others) {
    if (FindRun(*record, expected, was_rebooted)) expected.erase(record->job);
  }
  for (const auto& [job, attempt] : expected) OnNeverStarted(job, attempt, was_rebooted);
  return {};
}

// Handles the record of a run that the controller did not name. Returns true if the controller has taken it over
// instead of an earlier attempt.
bool Node::FindRun(RunRecord record, const std::map<JobId, std::uint32_t>& expected, bool was_rebooted) {
  // The supervisor is about to start the job, and its record will then identify the run.
  const auto give_up = std::chrono::steady_clock::now() + kStartsWithin;
  while (StateOf(record) == RunState::kWatched && record.process.pid == 0 &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    auto again = ReadRunRecord(options_.run_directory, record.job);
    if (!again) return false;
    record = *std::move(again);
  }
  const RunState state = StateOf(record);
  const auto active = expected.find(record.job);
  const bool is_earlier = active != expected.end() && record.attempt < active->second;
  const auto end = [&] {
    if (state == RunState::kWatched) static_cast<void>(SendStop(record, SIGKILL, Duration(0)));
    if (state == RunState::kOrphaned) errands_.EndLeftovers(record);
    launcher_.RemoveRecord(record);
    runs_.erase(record.job);
    return false;
  };
  if (state == RunState::kNeverStarted || is_earlier) return end();
  Run& run = runs_[record.job];
  run.record = record;
  if (!ReportFound(run, record)) {
    run.found.reset();
    if (active != expected.end() || !record.exit) return end();
    // The end may not be durable in the controller. It is repeated, and the record is removed on a ForgetCommand.
    SayEnded(record, *record.exit);
    return false;
  }
  if (!record.exit) TakeOn(record, record.attempt, was_rebooted);  // Otherwise everything is reported.
  const JobRecord* live = controller_->Find(record.job);
  return live != nullptr && live->attempt == record.attempt;
}

void Node::TakeOn(const RunRecord& record, std::uint32_t attempt, bool was_rebooted) {
  RunState state = StateOf(record);
  // After a reboot a pid may belong to another process.
  if (was_rebooted && (state == RunState::kWatched || state == RunState::kOrphaned)) state = RunState::kVanished;
  switch (state) {
    case RunState::kWatched: {
      Run& run = runs_[record.job];
      run.record = record;
      // The supervisor reports its attempt when it has started; until then its record may be empty.
      run.record.attempt = attempt;
      LoadStopTerms(run);
      SayState(run);
      static_cast<void>(SendPing(record));  // Its report may have gone to the previous daemon.
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
      if (!was_rebooted && !runs_[record.job].found && !errands_.EndLeftovers(record)) {
        runs_[record.job].record = record;  // CheckSupervisors continues until nothing is left.
        runs_[record.job].record.attempt = attempt;
        break;
      }
      // The record is removed once this is durable. Without it the next daemon would think that the job never started.
      runs_[record.job].record = record;
      runs_[record.job].record.attempt = attempt;
      runs_[record.job].record.exit = UnknownExit();
      SayVanished(record.job, attempt, was_rebooted ? RunVanished::kRebooted : RunVanished::kUnseen);
      break;
    case RunState::kNeverStarted:
      launcher_.RemoveRecord(record);
      OnNeverStarted(record.job, attempt, was_rebooted);
      break;
  }
}

// ---- Runs that the controller does not know -------------------------------------------------------------------------

// The record was written by a supervisor with the daemon's own rights, so its owner is as trustworthy as the launch
// itself. It is compared with the user of the processes nevertheless.
RunDescription Node::Describe(const RunRecord& record) const {
  RunDescription run;
  if (auto about = wire::DecodeAgent<RunDescription>(record.about)) run = *std::move(about);
  const bool has_numbers_of_controller = !options_.find_user;
  const bool is_owner = run.record.id == record.job && run.record.attempt == record.attempt &&
                        (!options_.may_change_user || !has_numbers_of_controller || run.record.user.uid == record.uid);
  if (!is_owner) run = RunDescription();
  JobRecord& job = run.record;
  if (!is_owner) job.user = {record.uid, record.gid, ""};
  job.id = record.job;
  job.attempt = record.attempt;
  job.started = record.started;
  job.state = record.has_started() ? JobState::kRunning : JobState::kStarting;
  if (job.request.is_elastic()) job.gpus = ReadGpusFile(options_.run_directory, record.job).value_or(job.gpus);
  run.exit = record.exit;
  run.ended = record.ended;
  return run;
}

bool Node::ReportFound(Run& run, const RunRecord& record) {
  run.found = std::make_unique<RunDescription>(Describe(record));
  run.stop_signal = run.found->spec.stop_signal;
  run.grace = options_.GraceOf(run.found->spec);
  if (!controller_->OnFound(*run.found)) return false;
  const JobRecord& job = run.found->record;
  const auto since = std::chrono::floor<std::chrono::seconds>(job.started.time_since_epoch()).count();
  Note("event=found_run job=" + ToString(record.job) + " attempt=" + std::to_string(record.attempt) +
       " uid=" + std::to_string(job.user.uid) + " user=" + job.user.name + " gpus=" + GpuListText(job.gpus) +
       " since=" + std::to_string(since) + " what=\"the controller did not name it; it is left alone\"");
  return true;
}

void Node::Adopt(const AdoptCommand& order) {
  const auto at = runs_.find(order.record.id);
  if (at == runs_.end() || at->second.record.attempt != order.record.attempt || !at->second.found) return;
  Run& run = at->second;
  run.found.reset();
  LoadStopTerms(run);
  if (run.record.exit && !run.awaits_leftovers) return SayEnded(run.record, *run.record.exit);
  if (run.adopted && order.record.time_limit > Duration(0) && run.record.has_started())
    run.limit_at = AddSaturating(run.record.started, order.record.time_limit);
  SayState(run);
  Remind(run);
}

std::vector<const RunDescription*> Node::found() const {
  std::vector<const RunDescription*> found;
  for (const auto& [job, run] : runs_) {
    if (run.found) found.push_back(run.found.get());
  }
  return found;
}

// The launch of a foreground job is only awaited, because its caller will request it again.
void Node::OnNeverStarted(JobId job, std::uint32_t attempt, bool was_rebooted) {
  const JobRecord* live = controller_->Find(job);
  const bool has_caller = live != nullptr && live->is_foreground && live->gang.empty();
  if (has_caller && !was_rebooted && live->stop_intent == StopIntent::kNone) {
    auto spec = controller_->SpecOf(*live);
    // An agent may know no more of the job than how to stop it.
    const bool is_whole = spec && (!(*spec)->command.empty() || !(*spec)->script.empty());
    if (is_whole) return AwaitCaller(LaunchCommand{*live, "", 0}, *std::move(spec));
  }
  SayVanished(job, attempt, was_rebooted ? RunVanished::kRebooted : RunVanished::kNeverStarted);
}

void Node::Reconcile() {
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
      // The record on disk holds more than the reports.
      const auto kept = ReadRunRecord(options_.run_directory, job);
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
      const NodeCommand end = StopCommand{job, SIGKILL, Duration(0)};
      if (IsListening(run.record) || run.adopted) Deliver(run, end);
      else run.waiting.push_back(end);
      continue;
    }
    SayState(run);
    Remind(run);
  }
  for (const JobId job : expected) OnNeverStarted(job, controller_->Find(job)->attempt, false);
}

}  // namespace divvy
