#include "daemon/node/node.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "model/exit_codes.h"
#include "platform/records/step_list_file.h"

namespace divvy {
Node::Node(NodeOptions options, Launcher& launcher, std::vector<GpuFacts> gpus)
    : options_(std::move(options)), launcher_(launcher), gpus_(std::move(gpus)) {}

std::set<JobId> Node::runs() const {
  std::set<JobId> jobs;
  for (const auto& [job, run] : driver_.runs()) jobs.insert(jobs.end(), job);
  return jobs;
}

std::variant<RunRecord, Exit> Node::Launch(const LaunchCommand& command, const JobSpec& spec) {
  const JobRecord& record = command.record;
  const auto failed = [](const std::string& why, int code = 127) { return Exit{.code = code, .failure = why}; };
  const auto here = users_.CheckUser(record.user);
  if (!here) return failed(here.error().message);
  if (options_.errands && users_.WithRight(*here).right == UserRight{})
    return failed(users_.MissingRight(*here), kMachineCannot);
  JobIsolation tried;
  if (const Status folders = SetOwnFolders(options_.isolation, FoldersOf(spec), tried); !folders)
    return failed(options_.names.name() + ": " + folders.error().message, kCannotRun);
  const auto grant = grants_.extract(record.id);
  const std::string_view changes =
      record.request.is_elastic() ? "an elastic job"
      : !grant.empty() && !(grant.mapped().reachable - GpuSet::Of(grant.mapped().gpus)).empty()
          ? "a job with a GPU fraction"
          : "";
  if (const Status exact = CheckRequired(options_.isolation, changes); !exact)
    return failed(options_.names.name() + ": " + exact.error().message, kCannotRun);
  LaunchRequest request = launches_.RequestFor(command, spec, *here, grant.empty() ? nullptr : &grant.mapped());
  if (const auto key = gang_keys_.extract(record.id)) {
    if (key.mapped().first == record.attempt) request.gang.key = key.mapped().second;
  }
  if (const auto window = windows_.find(record.id); window != windows_.end()) request.window = window->second;
  const auto kept = streams_.extract(record.id);
  if (kept) {
    for (std::size_t i = 0; i < request.streams.size(); ++i) request.streams[i] = kept.mapped()[i].get();
  }
  const auto held = held_.extract(record.id);
  if (held) {
    const Held& ends = held.mapped();
    request.held = {ends.output.get(), ends.error.get(), ends.life.get()};
    request.held_log = options_.log_directory + "/" + ToString(record.id) + ".log";
  }
  adopted_.erase(record.id);
  locks_.insert_or_assign(record.id, request.isolation.lock);
  Status launched;
  if (record.request.is_elastic()) launched = errands_.SetGpusFile(record.id, record.gpus);
  if (launched) launched = launcher_.Launch(request);
  if (!launched) return failed(launched.error().message, kMachineCannot);
  RunRecord run;
  run.job = record.id;
  run.attempt = record.attempt;
  run.uid = request.uid;
  run.gid = request.gid;
  return run;
}

void Node::DropCaller(JobId job) {
  windows_.erase(job);
  locks_.erase(job);
  DropStreams(job);
}

void Node::KeepStreams(JobId job, Streams streams) {
  if (Runs(job)) return;
  streams_[job] = std::move(streams);
  driver_.OnCaller(job);
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
  const NodeDriver::Run* run = driver_.Find(record.job);
  const bool is_ours = run != nullptr && run->record.attempt == record.attempt;
  switch (report.kind) {
    case SupervisorReport::Kind::kExited:
      if (is_ours) windows_.erase(record.job);
      return driver_.OnReport(NodeDriver::Report::kExited, record);
    case SupervisorReport::Kind::kDelayed:
      driver_.OnReport(NodeDriver::Report::kDelayed, record);
      break;
    default:
      driver_.OnReport(NodeDriver::Report::kAlive, record);
      break;
  }
  if (!is_ours) return;
  if (const auto window = windows_.extract(record.job)) static_cast<void>(SendResize(record, window.mapped()));
}

void Node::OnRefused(JobId job, std::uint32_t attempt) {
  const JobRecord* live = controller_->Find(job);
  if (live == nullptr) return;
  driver_.OnRefused(job, attempt, Exit{.code = kMachineCannot, .failure = users_.RefusedRight(live->user)});
}

Status Node::Attach(JobId job, int in, int out, WindowSize window, std::function<void()> on_detached) {
  const NodeDriver::Run* run = driver_.Find(job);
  if (run == nullptr) return FailedPrecondition("job " + ToString(job) + " is not running here");
  // A viewer that an earlier daemon attached may detach only now; its number must not match one of ours.
  const auto now = std::chrono::floor<std::chrono::microseconds>(controller_->Now().time_since_epoch()).count();
  const std::uint64_t attachment = last_attachment_ =
      std::max(last_attachment_ + 1, static_cast<std::uint64_t>(std::max<std::int64_t>(now, 0)));
  DIVVY_CHECK(SendAttach(run->record, attachment, in, out, window));
  attachments_.emplace(attachment, std::move(on_detached));
  return {};
}

Status Node::CallStep(JobId job, int socket, bool stops_only) {
  const NodeDriver::Run* run = driver_.Find(job);
  if (run == nullptr) return FailedPrecondition("job " + ToString(job) + " is not running here");
  return SendStepCall(run->record, socket, stops_only);
}

Status Node::Resize(JobId job, WindowSize window) {
  const NodeDriver::Run* run = driver_.Find(job);
  if (run == nullptr && !streams_.contains(job))
    return FailedPrecondition("job " + ToString(job) + " is not running here");
  // The caller may send its window size before the job's supervisor runs; the size is then kept for the launch.
  if (run == nullptr || run->record.control.empty()) windows_[job] = window;
  else return SendResize(run->record, window);
  return {};
}

JobId Node::JobUnder(std::int64_t supervisor) const {
  if (supervisor <= 0) return JobId();
  for (const auto& [job, run] : driver_.runs()) {
    const RunRecord& record = run.record;
    if (record.supervisor.pid == supervisor || record.guard.pid == supervisor) return job;
    if (run.is_adopted && record.process.pid == supervisor) return job;
  }
  return JobId();
}

std::set<std::int64_t> Node::supervisors() const {
  std::set<std::int64_t> pids;
  for (const auto& [job, run] : driver_.runs()) {
    if (run.record.supervisor.pid > 0) pids.insert(run.record.supervisor.pid);
    if (run.record.guard.pid > 0) pids.insert(run.record.guard.pid);
    if (run.is_adopted) pids.insert(run.record.process.pid);
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
  if (const NodeDriver::Run* run = driver_.Find(job)) {
    const auto lock = locks_.find(job);
    if (lock != locks_.end() && lock->second != DeviceLock::kNone) text = Text(lock->second);
    // The cgroup of an ended job is gone, although the run is known for a little longer.
    count = errands_.RefusedDevicesOf(run->record).value_or(count);
  }
  if (count == 0) return text;
  return text + (text.empty() ? "" : "; ") + std::to_string(count) +
         (count == 1 ? " open of another GPU refused" : " opens of other GPUs refused");
}

std::int64_t Node::pid_of(JobId job) const {
  const NodeDriver::Run* run = driver_.Find(job);
  return run == nullptr ? 0 : run->record.process.pid;
}

std::int64_t Node::uid_of(JobId job) const {
  const NodeDriver::Run* run = driver_.Find(job);
  return run == nullptr ? -1 : run->record.uid;
}

std::vector<Node::RunHere> Node::runs_here() const {
  std::vector<RunHere> here;
  for (const auto& [job, run] : driver_.runs()) {
    const JobRecord* record = controller_ == nullptr ? nullptr : controller_->Find(job);
    if (record == nullptr || run.record.exit || !run.record.has_started()) continue;
    RunHere& one = here.emplace_back();
    one.job = job;
    one.attempt = run.record.attempt;
    one.use.job = job.value();
    if (run.record.supervisor.pid > 0) one.use.roots.push_back(run.record.supervisor.pid);
    if (run.record.guard.pid > 0) one.use.roots.push_back(run.record.guard.pid);
    if (run.is_adopted) one.use.roots.push_back(run.record.process.pid);
    one.use.gpus = GpusHere(*record);
    one.use.has_slices = record->gpu_slice.any();
    one.use.is_paused = record->state == JobState::kPaused;
    one.use.has_parts = record->request.is_portioned() || record->gpu_slice.any();
  }
  return here;
}

Time Node::StartOfRun(JobId job) const {
  const NodeDriver::Run* run = driver_.Find(job);
  return run == nullptr ? kNoTime : run->record.started;
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
