// Runs whose daemon, launcher, supervisor or guard has been killed: finding out what became of them, and going on.
#include <algorithm>
#include <csignal>
#include <utility>

#include "daemon/node.h"
#include "model/step_list.h"
#include "platform/process_tree.h"
#include "platform/step_list_file.h"

namespace divvy {
namespace {

// A caller asks for the new daemon about once a second. Its GPUs stay idle meanwhile.
constexpr Duration kCallersReturnWithin = std::chrono::seconds(10);

Exit UnknownExit() {
  Exit exit;
  exit.is_known = false;
  return exit;
}

}  // namespace

void Node::Remind(Run& run) {
  const JobRecord* live = controller_->Find(run.record.job);
  if (live == nullptr || live->attempt != run.record.attempt) return;
  const auto say = [&](const Order& order) {
    if (IsListening(run.record) || run.adopted) Deliver(run, order);
    else run.waiting.push_back(order);
  };
  // What was made durable may never have been sent. Saying it twice does no harm.
  say(PauseOrder{live->id, live->state == JobState::kPaused, ""});
  say(TimeLimitOrder{live->id, Deadline(*live)});
  if (live->takes_resizes) {
    const GpuSet usable = GpusHere(*live) - live->gpus_asked_back;
    say(ResizeOrder{live->id, usable, usable != live->gpus_used});
  }
  // A stop that was acknowledged may never have been sent; saying it twice does no harm.
  // A part of a gang is stopped because another has ended, and nobody means it.
  const bool is_to_end = live->stop_intent != StopIntent::kNone || live->state == JobState::kStopping;
  if (is_to_end) say(StopOrder{live->id, 0, Duration(-1), ""});
}

void Node::AdoptOrphan(const RunRecord& record) {
  Run& run = runs_[record.job];
  run.record = record;
  run.record.control.clear();
  auto process = AdoptedProcess::Open(record.process);
  if (!process) {
    if (EndLeftovers(record)) OnVanished(record, record.attempt);
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
    const auto exit = at->second.adopted->PollExit();
    if (!exit) return;
    Run& ended = at->second;
    ended.record.exit = exit;
    ended.record.exit->hit_time_limit = ended.hit_limit;
    ended.record.ended = controller_->Now();
    // What it left behind must not keep the GPU, and keeps it while it lives.
    ended.awaits_leftovers = ended.adopted->SignalTree(SIGKILL) > 0;
    if (!ended.awaits_leftovers) OnEnded(ended.record);
  });
}

bool Node::EndLeftovers(const RunRecord& record) const {
  return SignalLeftBehind(record.process, "DIVVY_JOB_ID=" + ToString(record.job), SIGKILL) == 0;
}

// Who was stopped by the lease did nothing wrong, and is queued again as if the controller had waited for it.
void Node::SayVanished(JobId job, std::uint32_t attempt, RunVanished how) {
  if (over_) over_(job, attempt);
  controller_->OnVanished(job, attempt, how);
}

void Node::SayEnded(const RunRecord& record, const Exit& exit) {
  if (record.was_cut_off) return SayVanished(record.job, record.attempt, RunVanished::kCutOff);
  if (over_) over_(record.job, record.attempt);
  Exit told = exit;
  told.steps = KeptSteps(ReadStepListFile(StepListPath(options_.run_directory, record.uid, record.job.value())));
  controller_->OnExited(record.job, record.attempt, told, record.ended);
}

// Supervisor, guard and first process are gone, and all that it left behind. Its GPUs are given away when the driver
// agrees.
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
  run.grace = GraceOf(**spec);
}

void Node::KeepTimeOfAdopted() {
  const Time now = controller_->Now();
  for (auto& [job, run] : runs_) {
    if (!run.adopted) continue;
    if (run.awaits_leftovers) {
      run.awaits_leftovers = run.adopted->SignalTree(SIGKILL) > 0;
      if (!run.awaits_leftovers) OnEnded(run.record);
      continue;
    }
    if (run.record.exit) continue;
    if (run.record.awaits_go() && run.record.port == 0) {
      LookAtAdoptedPart(run);
      SayState(run);
    }
    run.hit_limit |= run.limit_at <= now;
    if (run.limit_at <= now) Deliver(run, StopOrder{job, 0, Duration(-1)});
    if (run.kill_at <= now) run.adopted->SignalTree(SIGKILL);
  }
}

void Node::CheckSupervisors() {
  launcher_.RepeatLost();
  KeepTimeOfAdopted();
  FailUnclaimed();
  std::vector<JobId> suspects;
  for (const auto& [job, run] : runs_) {
    if (run.adopted || run.record.exit) continue;
    // One that has not said where it listens may have been killed before it could.
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
        break;  // On its way out; its report comes.
      case RunState::kEnded:
        run->second.record = record;
        OnEnded(record);
        break;
      case RunState::kOrphaned:
        AdoptOrphan(record);
        break;
      case RunState::kVanished:
        if (EndLeftovers(record)) OnVanished(record, attempt);
        break;
      case RunState::kNeverStarted:
        if (launcher_.IsPending(record.job, attempt)) break;  // The launcher repeats it.
        // An earlier daemon's launcher had passed it on, and its supervisor was killed before its first word.
        RemoveRunRecord(options_.run_directory, record);
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
  for (const RunRecord& record : records) {
    const auto active = expected.find(record.job);
    RunState state = StateOf(record);
    // A pid of before may be somebody's again.
    if (was_rebooted && (state == RunState::kWatched || state == RunState::kOrphaned)) state = RunState::kVanished;
    // A record without an attempt is one whose supervisor was killed before its first word.
    const bool is_ours = active != expected.end() && (record.attempt == active->second || record.attempt == 0);
    if (!is_ours && active == expected.end() && state == RunState::kEnded) {
      // Its end may not be durable where it was said. It is said once more, and the record goes when we are told so.
      runs_[record.job].record = record;
      SayEnded(record, *record.exit);
      continue;
    }
    if (!is_ours) {
      if (state == RunState::kWatched) static_cast<void>(SendStop(record, SIGKILL, Duration(0)));
      if (state == RunState::kOrphaned) EndLeftovers(record);
      RemoveRunRecord(options_.run_directory, record);
      continue;
    }
    const std::uint32_t attempt = active->second;
    expected.erase(active);
    switch (state) {
      case RunState::kWatched: {
        Run& run = runs_[record.job];
        run.record = record;
        // It says so itself when it has begun; until then its record may be empty.
        run.record.attempt = attempt;
        LoadStopTerms(run);
        SayState(run);
        static_cast<void>(SendPing(record));  // Its report may have gone to the daemon before us.
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
        if (!was_rebooted && !EndLeftovers(record)) {
          runs_[record.job].record = record;  // CheckSupervisors goes on until nothing is left.
          runs_[record.job].record.attempt = attempt;
          break;
        }
        // Its record goes when this is durable: without it the next daemon would think that the job never started.
        runs_[record.job].record = record;
        runs_[record.job].record.attempt = attempt;
        runs_[record.job].record.exit = UnknownExit();
        SayVanished(record.job, attempt, was_rebooted ? RunVanished::kRebooted : RunVanished::kUnseen);
        break;
      case RunState::kNeverStarted:
        RemoveRunRecord(options_.run_directory, record);
        OnNeverStarted(record.job, attempt, was_rebooted);
        break;
    }
  }
  for (const auto& [job, attempt] : expected) OnNeverStarted(job, attempt, was_rebooted);
  return {};
}

// The launch of one in the foreground is only awaited: its caller asks for it again.
void Node::OnNeverStarted(JobId job, std::uint32_t attempt, bool was_rebooted) {
  const JobRecord* live = controller_->Find(job);
  const bool has_caller = live != nullptr && live->is_foreground && live->gang.empty();
  if (has_caller && !was_rebooted && live->stop_intent == StopIntent::kNone) {
    auto spec = controller_->SpecOf(*live);
    // An agent may know no more of it than how it is to be stopped.
    const bool is_whole = spec && (!(*spec)->command.empty() || !(*spec)->script.empty());
    if (is_whole) return AwaitCaller(LaunchOrder{*live, "", 0}, *std::move(spec));
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
    if (run.record.exit) {
      if (!run.awaits_leftovers) SayEnded(run.record, *run.record.exit);
      continue;
    }
    if (!is_ours) {
      // Nobody waits for it. Its end is said like any other, and its record goes when we are told so.
      const Order end = StopOrder{job, SIGKILL, Duration(0)};
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
