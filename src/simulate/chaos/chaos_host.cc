#include "simulate/chaos/chaos_host.h"

#include <csignal>
#include <utility>

namespace divvy::simulate {
namespace {

/// `RunFile::watcher` becomes the supervisor's pid and address.
RunRecord RecordOf(const RunFile& file) {
  RunRecord record;
  record.job = file.job;
  record.attempt = file.attempt;
  record.supervisor.pid = static_cast<std::int64_t>(file.watcher);
  if (file.watcher != 0) record.control = "@" + std::to_string(file.watcher);
  record.process.pid = file.names_process ? 1 : 0;
  record.started = file.started;
  record.exit = file.exit;
  record.ended = file.ended;
  return record;
}

}  // namespace

// --- The loop -------------------------------------------------------------------------------------------------------

void ChaosHost::AdoptRuns(bool was_rebooted) {
  const Status adopted = node_.AdoptRuns(was_rebooted && mutation_ != ChaosMutation::kIgnoresReboots);
  DIVVY_ASSERT(adopted);  // Scan does not fail.
  machine_.RepeatPresences();
}

void ChaosHost::Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) {
  const NodeDriver::Run* run = node_.Find(JobOf(command));
  if (mutation_ == ChaosMutation::kFreesGpusEarly && run != nullptr && std::holds_alternative<StopCommand>(command))
    reports_.OnExited(run->record.job, run->record.attempt, EndedBy(SIGTERM), reports_.Now());
  if (const auto* displace = std::get_if<DisplaceCommand>(&command)) {
    if (run == nullptr || run->record.attempt != displace->attempt) return;
    if (!displace->is_displaced && mutation_ == ChaosMutation::kDropsReturns) return;
    if (!displace->is_displaced) SetStopped(displace->job, displace->attempt, false);
    machine_.Displace({displace->job, displace->attempt, displace->is_displaced, displace->gpus});
    if (displace->is_displaced && mutation_ == ChaosMutation::kParksEarly)
      reports_.OnPresence({displace->job, displace->attempt, Presence::kAway, {}, false, ""});
    return;
  }
  is_executing_ = true;
  node_.Execute(command, std::move(spec));
  is_executing_ = false;
}

void ChaosHost::SetStopped(JobId job, std::uint32_t attempt, bool is_stopped) {
  stopped_[{job, attempt}] = is_stopped;
  if (!is_stopped && mutation_ == ChaosMutation::kKeepsStopped) return;
  node_.Execute(DisplaceCommand{job, attempt, is_stopped, {}, ""}, nullptr);
}

// As NodeShares::FollowPresence (daemon/node/node_displacements.cc).
void ChaosHost::OnPresence(const PresenceReport& report) {
  const NodeDriver::Run* run = node_.Find(report.job);
  if (run == nullptr || run->record.attempt != report.attempt) return;
  const auto before = stopped_.find({report.job, report.attempt});
  const bool is_new = before == stopped_.end();
  const bool is_stopped = !is_new && before->second;
  const bool is_away = report.presence == Presence::kAway;
  if (is_away && !machine_.IsAskedBack(report.job) && (is_new || !is_stopped))
    SetStopped(report.job, report.attempt, true);
  if (!is_away && report.presence != Presence::kLeaving && (is_new || is_stopped))
    SetStopped(report.job, report.attempt, false);
  reports_.OnPresence(report);
}

void ChaosHost::OnReport(const ReportMessage& report) {
  RunRecord record = RecordOf(report.file);
  const NodeDriver::Run* run = node_.Find(record.job);
  if (mutation_ == ChaosMutation::kMistakesAttempts && run != nullptr) record.attempt = run->record.attempt;
  reported_ = record.attempt;
  node_.OnReport(report.is_exit ? NodeDriver::Report::kExited : NodeDriver::Report::kAlive, record);
  reported_.reset();
}

void ChaosHost::FinishLook(std::size_t index) {
  const Look look = std::move(looks_[index]);
  looks_.erase(looks_.begin() + static_cast<std::ptrdiff_t>(index));
  reports_.OnGpusObserved(machine_.Observe(look.gpus, known()));
  look.done();
}

std::vector<JobId> ChaosHost::EndedAdopted() const {
  std::vector<JobId> jobs;
  for (const auto& [job, run] : node_.runs()) {
    if (run.is_adopted && !run.record.exit && !machine_.HasProcess(job, run.record.attempt)) jobs.push_back(job);
  }
  return jobs;
}

std::set<JobId> ChaosHost::known() const {
  std::set<JobId> jobs;
  for (const auto& [job, run] : node_.runs()) {
    if (run.record.supervisor.pid != 0 || run.is_adopted) jobs.insert(job);
  }
  return jobs;
}

// --- Launches -------------------------------------------------------------------------------------------------------

std::variant<RunRecord, Exit> ChaosHost::Launch(const LaunchCommand& command, const JobSpec& spec) {
  const JobRecord& record = command.record;
  auto about = std::make_shared<RunDescription>();
  about->record = record;
  about->gpu_parts = record.gpu_parts.ten_thousandths();
  about->spec.stop_signal = spec.stop_signal;
  about->spec.grace = spec.grace;
  LaunchMessage message;
  message.job = record.id;
  message.attempt = record.attempt;
  message.gpus = record.gpus;
  message.time_limit = record.time_limit;
  message.stop_signal = spec.stop_signal;
  message.grace = spec.grace;
  message.restarts = record.restarts;
  message.is_parkable = command.is_parkable;
  message.about = std::move(about);
  unconfirmed_.insert_or_assign(Key(record.id, record.attempt), PendingLaunch{message, false});
  machine_.Launch(message);
  if (mutation_ == ChaosMutation::kStartsUnrecorded) reports_.OnStarted(record.id, record.attempt, reports_.Now());
  RunRecord run;
  run.job = record.id;
  run.attempt = record.attempt;
  return run;
}

void ChaosHost::Confirm(JobId job, std::uint32_t attempt) {
  if (mutation_ != ChaosMutation::kForgetsToConfirm || reported_) unconfirmed_.erase({job, attempt});
}

bool ChaosHost::IsPending(JobId job, std::uint32_t attempt) const {
  return mutation_ == ChaosMutation::kForgetsVoidNominations || unconfirmed_.contains({job, attempt});
}

void ChaosHost::RepeatLost() {
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

void ChaosHost::OnLauncherDied() {
  for (auto& [key, pending] : unconfirmed_) pending.is_stranded = true;
  RepeatLost();
}

void ChaosHost::OnStranded(JobId job, std::uint32_t attempt) {
  if (const auto at = unconfirmed_.find({job, attempt}); at != unconfirmed_.end()) at->second.is_stranded = true;
  RepeatLost();
}

// --- Run records ----------------------------------------------------------------------------------------------------

Result<std::vector<RunRecord>> ChaosHost::Scan() const {
  std::vector<RunRecord> records;
  if (mutation_ == ChaosMutation::kOverlooksRecords && !is_looking_) return records;
  for (const auto& [file, state] : machine_.Scan()) records.push_back(RecordOf(file));
  return records;
}

Result<RunRecord> ChaosHost::Read(JobId job) const {
  const auto there = machine_.Read(job);
  if (!there) return NotFound("no record");
  RunRecord record = RecordOf(there->first);
  if (mutation_ == ChaosMutation::kRemovesAnyRecord && reported_) record.attempt = *reported_;
  return record;
}

RunState ChaosHost::StateOf(const RunRecord& record) const {
  if (record.exit) return RunState::kEnded;
  const auto there = machine_.Read(record.job);
  if (!there) return record.process.pid == 0 ? RunState::kNeverStarted : RunState::kVanished;
  const bool is_unnamed = there->second == RunState::kWatched && !there->first.names_process;
  return mutation_ == ChaosMutation::kIgnoresClaims && is_unnamed ? RunState::kNeverStarted : there->second;
}

void ChaosHost::RemoveRecord(const RunRecord& record) {
  if (mutation_ == ChaosMutation::kKeepsRecords) return;
  const auto there = machine_.Read(record.job);
  const bool is_later = there && there->first.attempt > record.attempt;
  if (!is_later || mutation_ == ChaosMutation::kRemovesAnyRecord) machine_.Remove(record.job);
}

RunDescription ChaosHost::Describe(const RunRecord& record) const {
  RunDescription run;
  const auto tree = machine_.trees().find({record.job, record.attempt});
  if (tree != machine_.trees().end() && tree->second.launch.about) run = *tree->second.launch.about;
  run.record.id = record.job;
  run.record.attempt = record.attempt;
  run.record.started = record.started;
  run.record.state = record.has_started() ? JobState::kRunning : JobState::kStarting;
  run.exit = record.exit;
  run.ended = record.ended;
  return run;
}

// --- Supervisors and processes --------------------------------------------------------------------------------------

bool ChaosHost::Send(const RunRecord& record, CommandMessage::Kind kind, int signal, Duration duration) {
  const auto watcher = static_cast<std::uint64_t>(record.supervisor.pid);
  return machine_.Send({kind, record.job, record.attempt, watcher, signal, duration});
}

void ChaosHost::Stop(const RunRecord& record, int signal, Duration grace) {
  Send(record, CommandMessage::Kind::kStop, signal, grace);
}

void ChaosHost::Signal(const RunRecord& record, int signal, SignalReach) {
  Send(record, CommandMessage::Kind::kSignal, signal);
}

void ChaosHost::Pause(const RunRecord& record) { Send(record, CommandMessage::Kind::kPause); }

void ChaosHost::Continue(const RunRecord& record) {
  if (!IsLeftOut(ChaosMutation::kForgetsToResume)) Send(record, CommandMessage::Kind::kContinue);
}

void ChaosHost::SetTimeLimit(const RunRecord& record, Duration limit) {
  if (!IsLeftOut(ChaosMutation::kForgetsLimits)) Send(record, CommandMessage::Kind::kTimeLimit, 0, limit);
}

bool ChaosHost::Ping(const RunRecord& record) {
  return Send(record, CommandMessage::Kind::kPing) || mutation_ == ChaosMutation::kTrustsTheDead;
}

bool ChaosHost::Adopt(const RunRecord& record) {
  if (!machine_.HasProcess(record.job, record.attempt)) return false;
  trace_.Note("run adopted: job", record.job, record.attempt);
  const auto tree = machine_.trees().find({record.job, record.attempt});
  if (mutation_ == ChaosMutation::kAdoptsTwice) {
    LaunchMessage again = tree->second.launch;
    ++again.attempt;
    machine_.Launch(again);
  }
  return true;
}

int ChaosHost::SignalAdopted(const RunRecord& record, int signal, SignalReach) {
  if (mutation_ == ChaosMutation::kSparesAdopted) return 0;
  return machine_.SignalTree(record.job, record.attempt, signal);
}

std::optional<Exit> ChaosHost::ExitOfAdopted(const RunRecord& record) {
  if (machine_.HasProcess(record.job, record.attempt)) return std::nullopt;
  return machine_.ExitSeenFromOutside(record.job, record.attempt);
}

bool ChaosHost::EndLeftovers(const RunRecord& record) {
  return mutation_ == ChaosMutation::kIgnoresLeftovers || machine_.SignalTree(record.job, record.attempt, SIGKILL) == 0;
}

void ChaosHost::CleanUp(const RunRecord& record, GpuSet gpus, std::function<void(const Exit&)> done) {
  if (!is_looking_ || gpus.empty()) return done(*record.exit);
  looks_.push_back({gpus, [done = std::move(done), exit = *record.exit] { done(exit); }});
}

// --- The controller -------------------------------------------------------------------------------------------------

void ChaosReports::OnStarted(JobId job, std::uint32_t attempt, Time at) {
  driver_.controller().OnStarted(job, attempt, at);
  driver_.Touch();
}

void ChaosReports::OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) {
  if (mutation_ == ChaosMutation::kDropsExits) return;
  driver_.controller().OnExited(job, attempt, exit, at, Now());
  driver_.Touch();
  if (mutation_ == ChaosMutation::kForgetsBeforeCommit) machine_.Remove(job);
}

void ChaosReports::OnVanished(JobId job, std::uint32_t attempt, RunVanished how) {
  using Vanished = Controller::Vanished;
  driver_.controller().OnVanished(job, attempt,
                                  how == RunVanished::kRebooted       ? Vanished::kRebooted
                                  : how == RunVanished::kNeverStarted ? Vanished::kNeverStarted
                                                                      : Vanished::kUnseen,
                                  Now());
  driver_.Touch();
}

void ChaosReports::OnPresence(const PresenceReport& report) {
  driver_.controller().OnPresence(report, Now());
  driver_.Touch();
}

void ChaosReports::OnGpusObserved(const std::vector<GpuObservation>& observations) {
  driver_.controller().OnGpusObserved(observations);
}

bool ChaosReports::OnFound(const RunDescription& run) {
  if (mutation_ == ChaosMutation::kHidesFoundRuns) return true;
  driver_.controller().OnFound(run, Now(), driver_.Outcomes());
  driver_.Touch();
  return true;
}

std::vector<JobId> ChaosReports::ActiveRuns() const {
  std::vector<JobId> active;
  for (const auto& [id, record] : driver_.controller().live()) {
    if (IsActive(record.state) && record.array_count == 0) active.push_back(id);
  }
  return active;
}

}  // namespace divvy::simulate
