#include "daemon/node/node.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <variant>

#include "model/exit_codes.h"
#include "platform/records/step_list_file.h"

namespace divvy {
namespace {

constexpr std::int64_t kNoGroup = 65534;  // The group "nogroup", which has no rights.

}  // namespace

Node::Node(NodeOptions options, Launcher& launcher, std::vector<GpuFacts> gpus)
    : options_(std::move(options)), launcher_(launcher), gpus_(std::move(gpus)) {}

std::set<JobId> Node::runs() const {
  std::set<JobId> jobs;
  for (const auto& [job, run] : runs_) jobs.insert(jobs.end(), job);
  return jobs;
}

void Node::Launch(const LaunchCommand& order, const std::shared_ptr<const JobSpec>& spec) {
  const JobRecord& record = order.record;
  const auto kept = streams_.find(record.id);
  if (spec == nullptr) return FailLaunch(record, "its specification could not be read from the store");
  if (spec->is_foreground && order.seat == 0 && kept == streams_.end()) return AwaitCaller(order, spec);
  const auto here = users_.CheckUser(record.user);
  if (!here) return FailLaunch(record, here.error().message);
  if (options_.errands && users_.WithRight(*here).right == UserRight{})
    return FailLaunch(record, users_.MissingRight(*here), kMachineCannot);
  JobIsolation tried;
  if (const Status folders = SetOwnFolders(options_.isolation, FoldersOf(*spec), tried); !folders)
    return FailLaunch(record, options_.names.name() + ": " + folders.error().message, kCannotRun);
  const auto grant = grants_.extract(record.id);
  const std::string_view changes =
      record.request.is_elastic() ? "an elastic job"
      : !grant.empty() && !(grant.mapped().reachable - GpuSet::Of(grant.mapped().gpus)).empty()
          ? "a job with a GPU fraction"
          : "";
  if (const Status exact = CheckRequired(options_.isolation, changes); !exact)
    return FailLaunch(record, options_.names.name() + ": " + exact.error().message, kCannotRun);
  LaunchRequest request = launches_.RequestFor(order, *spec, *here, grant.empty() ? nullptr : &grant.mapped());
  if (const auto key = gang_keys_.extract(record.id)) {
    if (key.mapped().first == record.attempt) request.gang.key = key.mapped().second;
  }
  if (const auto window = windows_.find(record.id); window != windows_.end()) request.window = window->second;
  if (kept != streams_.end()) {
    for (std::size_t i = 0; i < request.streams.size(); ++i) request.streams[i] = kept->second[i].get();
  }
  const auto held = held_.extract(record.id);
  if (held) {
    const Held& ends = held.mapped();
    request.held = {ends.output.get(), ends.error.get(), ends.life.get()};
    request.held_log = options_.log_directory + "/" + ToString(record.id) + ".log";
  }
  Run run;
  run.record.job = record.id;
  run.record.attempt = record.attempt;
  run.record.uid = request.uid;
  run.record.gid = request.gid;
  run.stop_signal = spec->stop_signal;
  run.resize_signal = spec->resize_signal;
  run.grace = options_.GraceOf(*spec);
  run.lock = request.isolation.lock;
  runs_.insert_or_assign(record.id, std::move(run));
  Status launched;
  if (record.request.is_elastic()) launched = errands_.SetGpusFile(record.id, record.gpus);
  if (launched) launched = launcher_.Launch(request);
  if (kept != streams_.end()) streams_.erase(kept);
  if (!launched) FailLaunch(record, launched.error().message, kMachineCannot);
}

void Node::FailLaunch(const JobRecord& record, const std::string& why, int code) {
  runs_.erase(record.id);
  windows_.erase(record.id);
  // Closes the streams, so that the caller sees that nothing will arrive.
  DropStreams(record.id);
  Exit exit;
  exit.code = code;
  exit.failure = why;
  if (over_) over_(record.id, record.attempt);
  controller_->OnExited(record.id, record.attempt, exit, controller_->Now());
}

void Node::KeepStreams(JobId job, Streams streams) {
  if (runs_.contains(job)) return;
  streams_[job] = std::move(streams);
  if (auto waiting = unclaimed_.extract(job)) Launch(waiting.mapped().order, waiting.mapped().spec);
}

// The streams of the job's caller were lost with the previous daemon; the caller still has them.
void Node::AwaitCaller(const LaunchCommand& order, std::shared_ptr<const JobSpec> spec) {
  const Time now = controller_->Now();
  const Time until = std::max(callers_return_until_, now + options_.awaits_callers);
  if (now >= until) return FailLaunch(order.record, "its terminal is gone");
  unclaimed_.insert_or_assign(order.record.id, Unclaimed{order, std::move(spec), until});
}

void Node::FailUnclaimed() {
  std::vector<JobRecord> gone;
  std::erase_if(unclaimed_, [&](const auto& waiting) {
    if (controller_->Now() < waiting.second.until) return false;
    gone.push_back(waiting.second.order.record);
    return true;
  });
  for (const JobRecord& record : gone) FailLaunch(record, "its terminal is gone");
}

void Node::Execute(const NodeCommand& order, std::shared_ptr<const JobSpec> spec) {
  if (const auto* launch = std::get_if<LaunchCommand>(&order)) return Launch(*launch, spec);
  if (const auto* forget = std::get_if<ForgetCommand>(&order)) return Forget(forget->job, forget->attempt);
  if (const auto* adopt = std::get_if<AdoptCommand>(&order)) return Adopt(*adopt);
  const JobId job = JobOf(order);
  if (std::holds_alternative<StopCommand>(order)) {
    if (const auto waiting = unclaimed_.extract(job))
      return FailLaunch(waiting.mapped().order.record, "stopped before it started");
  }
  const auto run = runs_.find(job);
  if (run == runs_.end()) {  // The run has ended meanwhile.
    if (std::holds_alternative<GoCommand>(order))
      Note("event=go_ignored job=" + ToString(job) + " reason=\"not here\"");
    return;
  }
  if (!IsListening(run->second.record) && !run->second.adopted) {
    run->second.waiting.push_back(order);
    return;
  }
  Deliver(run->second, order);
}

void Node::Deliver(Run& run, const NodeCommand& order) {
  const RunRecord& record = run.record;
  if (const auto* stop = std::get_if<StopCommand>(&order)) {
    const int signal = stop->signal != 0 ? stop->signal : run.stop_signal;
    const Duration grace = stop->grace >= Duration(0) ? stop->grace : run.grace;
    if (run.adopted) {
      SignalAdopted(run, grace > Duration(0) ? signal : SIGKILL, OrphanReach::kTree);
      SignalAdopted(run, SIGCONT, OrphanReach::kTree);
      run.kill_at = std::min(run.kill_at, AddSaturating(controller_->Now(), grace));
      run.limit_at = kNever;
    } else {
      // If the supervisor is gone, it has reported that, or CheckSupervisors will find it.
      static_cast<void>(SendStop(record, signal, grace));
    }
  } else if (const auto* send = std::get_if<SignalCommand>(&order)) {
    if (!run.adopted) static_cast<void>(SendSignal(record, send->signal, send->reach));
    else if (send->reach == SignalReach::kFirstProcess) SignalAdopted(run, send->signal, OrphanReach::kFirst);
    else SignalAdopted(run, send->signal, OrphanReach::kTree);
  } else if (const auto* pause = std::get_if<PauseCommand>(&order)) {
    if (run.adopted) SignalAdopted(run, pause->is_paused ? SIGSTOP : SIGCONT, OrphanReach::kTree);
    else static_cast<void>(pause->is_paused ? SendPause(record) : SendContinue(record));
  } else if (const auto* resize = std::get_if<ResizeCommand>(&order)) {
    // A job that misses the news in the file gets it at its next checkpoint.
    static_cast<void>(errands_.SetGpusFile(resize->job, resize->gpus));
    if (!resize->is_signalled || run.resize_signal == 0) return;
    if (run.adopted) SignalAdopted(run, run.resize_signal, OrphanReach::kFirst);
    else static_cast<void>(SendSignal(record, run.resize_signal, SignalReach::kFirstProcess));
  } else if (const auto* limit = std::get_if<TimeLimitCommand>(&order)) {
    const JobRecord* live = controller_->Find(limit->job);
    if (live == nullptr) return;
    if (!run.adopted) static_cast<void>(SendTimeLimit(record, live->time_limit));
    else if (!record.awaits_go())
      run.limit_at = live->time_limit > Duration(0) ? AddSaturating(record.started, live->time_limit) : kNever;
  } else if (const auto* go = std::get_if<GoCommand>(&order)) {
    LetGo(run, *go);
  }
}

void Node::OnReport(const SupervisorReport& report) {
  const RunRecord& record = report.record;
  if (report.kind == SupervisorReport::Kind::kDetached && report.attachment == 0) {
    if (terminal_left_) terminal_left_(record.job);
    return;
  }
  if (report.kind == SupervisorReport::Kind::kDetached) {
    const auto at = attachments_.find(report.attachment);
    if (at == attachments_.end()) return;
    const auto on_detached = std::move(at->second);
    attachments_.erase(at);
    return on_detached();
  }
  // A delayed launch may be lost together with its supervisor, and is then repeated.
  if (report.kind != SupervisorReport::Kind::kDelayed) launcher_.Confirm(record.job, record.attempt);
  const auto run = runs_.find(record.job);
  if (run != runs_.end() && run->second.found && run->second.record.attempt == 0) {
    // Its record was empty when it was found. The report now identifies it.
    if (const auto kept = ReadRunRecord(options_.run_directory, record.job)) {
      run->second.record.attempt = kept->attempt;
      ReportFound(run->second, *kept);
    }
  }
  if (run == runs_.end() || run->second.record.attempt != record.attempt) {
    // Before AdoptRuns, no run is known; the records on disk hold their exits.
    if (!has_adopted_) return;
    // A guard may repeat a report of its supervisor; by then the record may belong to a later attempt.
    const auto there = ReadRunRecord(options_.run_directory, record.job);
    const bool is_it = there && there->attempt == record.attempt;
    if (report.kind == SupervisorReport::Kind::kExited && is_it) launcher_.RemoveRecord(record);
    return;
  }
  const ProcessIdentity before = std::exchange(run->second.record, record).supervisor;
  if (report.kind == SupervisorReport::Kind::kExited) {
    windows_.erase(record.job);
    return OnEnded(record);
  }
  run->second.adopted.reset();
  if (before.pid != 0 && before != record.supervisor) Remind(run->second);
  if (const auto window = windows_.extract(record.job)) static_cast<void>(SendResize(record, window.mapped()));
  SayState(run->second);
  for (const NodeCommand& order : std::exchange(run->second.waiting, {})) Deliver(run->second, order);
}

void Node::OnRefused(JobId job, std::uint32_t attempt) {
  const auto run = runs_.find(job);
  const JobRecord* live = controller_->Find(job);
  if (run == runs_.end() || run->second.record.attempt != attempt || live == nullptr) return;
  FailLaunch(*live, users_.RefusedRight(live->user), kMachineCannot);
}

void Node::OnEnded(const RunRecord& record) {
  // An unconfirmed launch would be repeated once its record is gone, however the end was found.
  launcher_.Confirm(record.job, record.attempt);
  NoteRefused(record);
  const JobRecord* live = controller_->Find(record.job);
  const std::int64_t uid = options_.may_change_user ? record.uid : options_.uid;
  const std::string path = ContainerLogPath(StepListPath(options_.run_directory, uid, record.job.value()));
  const ContainerLog containers = ReadContainerLogFile(path);
  Exit exit = *record.exit;
  if (exit.code != 0 && exit.failure.empty() && !containers.failure.empty()) {
    exit.failure = containers.failure;
    exit.code = WithoutMachinesFault(exit.code);
  }
  if (const auto run = runs_.find(record.job); run != runs_.end() && exit.failure.empty())
    exit.failure = run->second.failure;
  const auto tell = [this, record, exit] { SayEnded(record, exit); };
  const auto finish = [this, tell, gpus = live == nullptr ? GpuSet() : GpusHere(*live)] {
    // A GPU is free when its job's processes are gone and the driver confirms it.
    if (!look_ || gpus.empty()) return tell();
    look_(gpus, [this, tell](std::vector<GpuObservation> seen) {
      controller_->OnGpusObserved(seen);
      tell();
    });
  };
  if (containers.left.empty() || uid < 0) return finish();
  // Containers that a SIGKILL left are removed before the GPUs are reused. If the user's group is unknown, the removal
  // runs as nogroup.
  const User user = users_.OwnerOf(record, live).value_or(User{uid, kNoGroup, ""});
  auto removal = std::make_shared<ContainerRemoval>(errands_.RemoveContainers(user, path));
  if (!watch_ || !removal->pidfd.is_open()) return finish();
  watch_(removal->pidfd.get(), [removal, finish] {
    removal->Reap();
    finish();
  });
}

void Node::Forget(JobId job, std::uint32_t attempt) {
  const auto run = runs_.find(job);
  if (run == runs_.end() || run->second.record.attempt != attempt) return;
  launcher_.RemoveRecord(run->second.record);
  runs_.erase(run);
}

Status Node::Attach(JobId job, int in, int out, WindowSize window, std::function<void()> on_detached) {
  const auto run = runs_.find(job);
  if (run == runs_.end()) return FailedPrecondition("job " + ToString(job) + " is not running here");
  // A viewer that an earlier daemon attached may detach only now; its number must not match one of ours.
  const auto now = std::chrono::floor<std::chrono::microseconds>(controller_->Now().time_since_epoch()).count();
  const std::uint64_t attachment = last_attachment_ =
      std::max(last_attachment_ + 1, static_cast<std::uint64_t>(std::max<std::int64_t>(now, 0)));
  DIVVY_CHECK(SendAttach(run->second.record, attachment, in, out, window));
  attachments_.emplace(attachment, std::move(on_detached));
  return {};
}

Status Node::CallStep(JobId job, int socket, bool stops_only) {
  const auto run = runs_.find(job);
  if (run == runs_.end()) return FailedPrecondition("job " + ToString(job) + " is not running here");
  return SendStepCall(run->second.record, socket, stops_only);
}

Status Node::Resize(JobId job, WindowSize window) {
  const auto run = runs_.find(job);
  if (run == runs_.end() && !streams_.contains(job))
    return FailedPrecondition("job " + ToString(job) + " is not running here");
  // The caller may send this before the supervisor runs.
  if (run == runs_.end() || run->second.record.control.empty()) windows_[job] = window;
  else return SendResize(run->second.record, window);
  return {};
}

JobId Node::JobUnder(std::int64_t supervisor) const {
  if (supervisor <= 0) return JobId();
  for (const auto& [job, run] : runs_) {
    const RunRecord& record = run.record;
    if (record.supervisor.pid == supervisor || record.guard.pid == supervisor) return job;
    if (run.adopted && record.process.pid == supervisor) return job;
  }
  return JobId();
}

std::set<std::int64_t> Node::supervisors() const {
  std::set<std::int64_t> pids;
  for (const auto& [job, run] : runs_) {
    if (run.record.supervisor.pid > 0) pids.insert(run.record.supervisor.pid);
    if (run.record.guard.pid > 0) pids.insert(run.record.guard.pid);
    if (run.adopted) pids.insert(run.record.process.pid);
  }
  return pids;
}

void Node::NoteRefused(const RunRecord& record) {
  constexpr std::size_t kMostRemembered = 1000;
  if (record.refused_devices == 0) return;
  refused_devices_ += record.refused_devices;
  refused_[record.job] = record.refused_devices;
  if (refused_.size() > kMostRemembered) refused_.erase(refused_.begin());
}

std::string Node::IsolationTextOf(JobId job) const {
  std::string text;
  const auto known = refused_.find(job);
  std::int64_t count = known == refused_.end() ? 0 : known->second;
  if (const auto run = runs_.find(job); run != runs_.end()) {
    if (run->second.lock != DeviceLock::kNone) text = Text(run->second.lock);
    // The cgroup of an ended job is gone, although the run is known for a little longer.
    count = errands_.RefusedDevicesOf(run->second.record).value_or(count);
  }
  if (count == 0) return text;
  return text + (text.empty() ? "" : "; ") + std::to_string(count) +
         (count == 1 ? " open of another GPU refused" : " opens of other GPUs refused");
}

std::int64_t Node::pid_of(JobId job) const {
  const auto run = runs_.find(job);
  return run == runs_.end() ? 0 : run->second.record.process.pid;
}

std::int64_t Node::uid_of(JobId job) const {
  const auto run = runs_.find(job);
  return run == runs_.end() ? -1 : run->second.record.uid;
}

std::vector<Node::RunHere> Node::runs_here() const {
  std::vector<RunHere> here;
  for (const auto& [job, run] : runs_) {
    const JobRecord* record = controller_ == nullptr ? nullptr : controller_->Find(job);
    if (record == nullptr || run.record.exit || !run.record.has_started()) continue;
    RunHere& one = here.emplace_back();
    one.job = job;
    one.attempt = run.record.attempt;
    one.use.job = job.value();
    if (run.record.supervisor.pid > 0) one.use.roots.push_back(run.record.supervisor.pid);
    if (run.record.guard.pid > 0) one.use.roots.push_back(run.record.guard.pid);
    if (run.adopted) one.use.roots.push_back(run.record.process.pid);
    one.use.gpus = GpusHere(*record);
    one.use.has_slices = record->gpu_slice.any();
    one.use.is_paused = record->state == JobState::kPaused;
    one.use.has_parts = record->request.is_portioned() || record->gpu_slice.any();
  }
  return here;
}

std::optional<JobLog> Node::LogOfRun(JobId job) const {
  const JobRecord* record = controller_ == nullptr ? nullptr : controller_->Find(job);
  if (record == nullptr) return std::nullopt;
  const auto spec = controller_->SpecOf(*record);
  if (!spec || *spec == nullptr) return std::nullopt;
  return LogOf(*record, **spec, false);
}

JobLog Node::LogOf(const JobRecord& record, const JobSpec& spec, bool is_error) const {
  JobLog log;
  log.user = record.user;
  const std::string error = is_error ? ErrorOf(record, spec) : "";
  log.path = error.empty() ? OutputOf(record, spec) : error;
  log.is_ours = error.empty() && spec.output.empty();
  // This node does not know the user, so nothing can be read with the user's rights.
  if (const auto here = users().UserHere(record.user)) log.user = *here;
  else if (!log.is_ours) log.path.clear();
  log.right = users_.WithRight(log.user).right;
  log.errands = options_.errands;
  return log;
}

}  // namespace divvy
