#include "daemon/node/node.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <variant>

#include "base/text.h"
#include "daemon/node/container.h"
#include "daemon/node/job_log.h"
#include "dialect/options/container_options.h"
#include "dialect/options/job_options.h"
#include "dialect/options/private_folders.h"
#include "dialect/options/task_options.h"
#include "model/exit_codes.h"
#include "model/steps/gang_environment.h"
#include "platform/isolation/job_cgroup.h"
#include "platform/records/step_list_file.h"
#include "wire/messages/agent_codec.h"
#include "wire/messages/agent_messages.h"

namespace divvy {
namespace {

/// Puts `first` at the front of a list variable such as PATH; `otherwise` is the list if the job does not set the
/// variable.
void FindFirst(const std::string& name, const std::string& first, std::vector<std::string>& environment,
               std::string_view otherwise = "") {
  if (first.empty()) return;
  const std::string begin = name + "=";
  auto list = std::ranges::find_if(environment, [&](const std::string& one) { return one.starts_with(begin); });
  if (list == environment.end()) list = environment.insert(list, begin + std::string(otherwise));
  std::string& text = *list;
  text.insert(begin.size(), first + (text.size() > begin.size() ? ":" : ""));
}

/// The keeper's variables for a tenant override the job's. For LD_PRELOAD, the job's own libraries are kept behind the
/// keeper's.
void AddGrant(const ShareGrant& grant, std::vector<std::string>& environment) {
  constexpr std::string_view kPreload = "LD_PRELOAD=";
  for (const std::string& entry : grant.environment) {
    if (entry.starts_with(kPreload)) FindFirst("LD_PRELOAD", entry.substr(kPreload.size()), environment);
    else environment = MergeEnvironment(std::vector<std::vector<std::string>>{environment, {entry}});
  }
}

/// Removes variables of gangs, because a job must not inherit them from the shell that submitted it.
std::vector<std::string> WithoutGang(std::vector<std::string> environment) {
  GangFile any;
  any.seats.resize(1);
  // Two components, so that their variables are included.
  any.seats.front().parts = {{0, GpuSet(), 1}, {1, GpuSet(), 1}};
  const std::vector<std::string> told = GangEnvironment(any, "");
  std::erase_if(environment, [&](const std::string& entry) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('=') + 1);
    return std::ranges::any_of(told, [&](const std::string& one) { return one.starts_with(name); });
  });
  return environment;
}

/// Returns the specification with the tasks of all nodes.
JobSpec WholeOf(const JobRecord& record, const JobSpec& spec) {
  JobSpec whole = spec;
  if (record.gang.empty()) return whole;
  whole.request.tasks = 0;
  for (const Seat& seat : record.gang) whole.request.tasks += seat.tasks;
  return whole;
}

constexpr std::int64_t kNoGroup = 65534;  // The group "nogroup", which has no rights.

/// The description of a run for its run record. Fields that may hold a secret or be long stay in the store only.
std::string AboutLaunch(const JobRecord& record, GpuSet gpus, const JobSpec& spec) {
  constexpr std::size_t kLongestCommand = 4096;
  RunDescription run;
  run.record = record;
  run.record.gpus = gpus;
  run.record.comment.clear();
  run.gpu_parts = record.gpu_parts.ten_thousandths();
  std::size_t length = 0;
  for (const std::string& word : spec.command) {
    length += word.size();
    if (length > kLongestCommand) break;
    run.spec.command.push_back(word);
  }
  run.spec.name = spec.name;
  run.spec.directory = spec.directory;
  run.spec.input = spec.input;
  run.spec.output = spec.output;
  run.spec.error = spec.error;
  run.spec.dialect = spec.dialect;
  run.spec.stop_signal = spec.stop_signal;
  run.spec.resize_signal = spec.resize_signal;
  run.spec.grace = spec.grace;
  run.spec.is_foreground = spec.is_foreground;
  run.spec.wants_pty = spec.wants_pty;
  constexpr std::size_t kLongest = std::size_t{16} << 10;
  std::string text = wire::EncodeAgent(run);
  if (text.size() > kLongest) {  // Paths can be long as well.
    run.spec = JobSpec();
    text = wire::EncodeAgent(run);
  }
  return text.size() > kLongest ? std::string() : text;
}

OwnFolders FoldersOf(const JobSpec& spec) {
  const dialect::PrivateFolders asked = dialect::ReadPrivateFolders(spec);
  return {asked.tmp, asked.shm};
}

}  // namespace

Node::Node(NodeOptions options, Launcher& launcher, std::vector<GpuFacts> gpus)
    : options_(std::move(options)), launcher_(launcher), gpus_(std::move(gpus)) {}

std::string Node::OutputOf(const JobRecord& record, const JobSpec& spec) const {
  return OutputPath(record, spec, options_.names, options_.log_directory);
}

std::set<JobId> Node::runs() const {
  std::set<JobId> jobs;
  for (const auto& [job, run] : runs_) jobs.insert(jobs.end(), job);
  return jobs;
}

std::string Node::ErrorOf(const JobRecord& record, const JobSpec& spec) const {
  return ErrorPath(record, spec, options_.names);
}

/// The first process starts the command once per task, as a step of its own job. If each task has its own file, the
/// step opens it, and messages about the tasks go to divvy's log.
void Node::StartTasks(const JobRecord& record, const JobSpec& spec, LaunchRequest& request) const {
  request.argv = dialect::TaskStarter(options_.divvy, spec, request.argv);
  if (dialect::NamesTask(spec.error)) request.error.clear();
  if (!dialect::NamesTask(spec.output)) return;
  request.output = options_.log_directory + "/" + ToString(record.id) + ".log";
  request.is_own_log = true;
}

std::vector<std::string> Node::DialectEnvironment(const LaunchOrder& order, const JobRecord& part,
                                                  const JobSpec& spec) const {
  if (spec.dialect == Dialect::kSlurm) {
    // If the job names several pools, this is the one that it runs in.
    JobSpec in_pool = spec;
    if (!part.pool_of_run.empty()) in_pool.pool = part.pool_of_run;
    else if (!part.pool.empty()) in_pool.pool = part.pool;
    return SlurmVariables(order, part, in_pool);
  }
  if (spec.dialect == Dialect::kGflow) {
    return {"GFLOW_JOB_ID=" + ToString(part.id), "GFLOW_JOB_NAME=" + part.name,
            "GFLOW_ARRAY_TASK_ID=" + std::to_string(part.array.is_set() ? part.array_index : 0)};
  }
  if (spec.dialect == Dialect::kValohai) {
    return {"VH_JOB_ID=exec-" + ToString(part.id), "VH_EXECUTION_ID=" + ToString(part.id),
            "VH_GPUS=" + std::to_string(part.gpus.size())};
  }
  return {};
}

std::optional<User> Node::UserHere(const User& user) const {
  if (!options_.may_change_user || !options_.find_user) return user;
  return options_.find_user(user.name);
}

Result<User> Node::CheckUser(const User& user) const {
  if (!options_.may_change_user) return User{-1, -1, user.name};
  const auto here = UserHere(user);
  if (!here) {
    return NotFound("node " + options_.names.name() + " has no user " + user.name +
                    "; create the account there, or exclude the node with --exclude");
  }
  const Status may = CheckUid(here->uid, options_.lowest_uid, true);
  if (options_.errands && !may) return PermissionDenied("node " + options_.names.name() + ": " + may.error().message);
  if (here->uid != 0 || options_.runs_root_jobs) return *here;
  return PermissionDenied("node " + options_.names.name() +
                          " does not run jobs as root; root_jobs = true under [jobs] in its divvy.toml allows it");
}

Result<User> Node::OwnerHere(const User& user) const {
  DIVVY_TRY(User here, CheckUser(user));
  if (here.uid < 0) here = {options_.uid, static_cast<std::int64_t>(::getegid()), user.name};
  return here;
}

std::optional<User> Node::OwnerOf(const RunRecord& run, const JobRecord* job) const {
  if (!options_.may_change_user) return User{options_.uid, run.gid, ""};
  if (run.uid >= 0 && run.gid >= 0) return User{run.uid, run.gid, ""};
  const auto here = job == nullptr ? std::nullopt : UserHere(job->user);
  return here && (run.uid < 0 || run.uid == here->uid) ? here : std::nullopt;
}

LaunchRequest Node::RequestFor(const LaunchOrder& order, const JobSpec& spec, const User& here,
                               const ShareGrant* grant) const {
  JobRecord record = PartOf(order);
  if (grant != nullptr) record.gpus = GpuSet::Of(grant->gpus);
  std::map<std::string, std::string> parameters;
  if (!spec.parameters.empty()) parameters = dialect::ElementAt(spec, record.array_ordinal).parameters;
  LaunchRequest request;
  request.job = record.id;
  request.attempt = record.attempt;
  for (const std::string& word : spec.command)
    request.argv.push_back(parameters.empty() ? word : dialect::FillParameters(word, parameters));
  request.script = parameters.empty() ? spec.script : dialect::FillParameters(spec.script, parameters);
  request.script_name = spec.name;
  for (const std::string& word : spec.arguments)
    request.arguments.push_back(parameters.empty() ? word : dialect::FillParameters(word, parameters));
  std::vector<std::vector<std::string>> layers = {
      options_.gpu_environment, record.gang.empty() ? spec.capture.environment : WithoutGang(spec.capture.environment),
      DivvyEnvironment(record, spec, gpus_, parameters, options_.names), DialectEnvironment(order, record, spec)};
  if (record.request.is_elastic()) layers.push_back({"DIVVY_GPUS_FILE=" + GpusFile(options_.run_directory, record.id)});
  const std::int64_t owner = options_.may_change_user ? here.uid : options_.uid;
  layers.push_back({"DIVVY_STEPS=" + StepListPath(options_.run_directory, owner, record.id.value())});
  const GpuSet open = grant == nullptr ? record.gpus : record.gpus | grant->reachable;
  request.isolation = IsolationOf(options_.isolation, gpus_, open, record.request.is_elastic());
  if (grant != nullptr) CloseOtherSlices(options_.isolation, grant->device_files, request.isolation);
  static_cast<void>(SetOwnFolders(options_.isolation, FoldersOf(spec), request.isolation));
  if (options_.isolation.wishes.limits_cpus) request.isolation.cpus = record.request.cpus;
  // For a GPU fraction, the keeper sets the visible devices: more devices are open to the job than it is on.
  if (request.isolation.lock != DeviceLock::kNone && grant == nullptr) {
    const std::string counted = VisibleDevices(request.isolation, record.gpus);
    layers.push_back({"CUDA_VISIBLE_DEVICES=" + counted, "DIVVY_CUDA_INDICES=" + counted});
  }
  layers.push_back(spec.extra_environment);
  request.environment = MergeEnvironment(layers);
  FindFirst("LD_LIBRARY_PATH", options_.gpu_libraries, request.environment);
  if (grant != nullptr) AddGrant(*grant, request.environment);
  // A script's srun must be divvy's, even if another one is installed.
  if (spec.dialect == Dialect::kSlurm)
    FindFirst("PATH", options_.slurm_directory, request.environment, "/usr/local/bin:/usr/bin:/bin");
  request.directory = spec.directory;
  request.umask = spec.capture.umask;
  request.input = spec.input;
  request.output = OutputOf(record, spec);
  request.error = ErrorOf(record, spec);
  // A restarted job appends to its files, so that the output of the first run can still be read.
  request.appends_output = spec.appends_output || record.restarts > 0;
  request.is_own_log = spec.output.empty() && !spec.is_foreground;
  IntoContainer(spec, grant, request);
  if (record.gang.empty() ? dialect::StartsTasks(spec) : dialect::StartsTasks(WholeOf(record, spec)))
    StartTasks(record, record.gang.empty() ? spec : WholeOf(record, spec), request);
  request.uid = here.uid;
  request.gid = here.gid;
  request.right = WithRight(here).right;
  request.limits = spec.capture.limits;
  request.wants_pty = spec.wants_pty;
  request.time_limit = record.time_limit;
  request.warn = spec.warn;
  request.stop_signal = spec.stop_signal;
  request.grace = GraceOf(spec);
  request.lease = options_.lease;
  request.about = AboutLaunch(order.record, record.gpus, spec);
  request.memory_limit = record.request.memory;
  if (!record.gang.empty()) TakeSeat(order, request);
  return request;
}

void Node::Launch(const LaunchOrder& order, const std::shared_ptr<const JobSpec>& spec) {
  const JobRecord& record = order.record;
  const auto kept = streams_.find(record.id);
  if (spec == nullptr) return FailLaunch(record, "its specification could not be read from the store");
  if (spec->is_foreground && order.seat == 0 && kept == streams_.end()) return AwaitCaller(order, spec);
  const auto here = CheckUser(record.user);
  if (!here) return FailLaunch(record, here.error().message);
  if (options_.errands && WithRight(*here).right == UserRight{})
    return FailLaunch(record, MissingRight(*here), kMachineCannot);
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
  LaunchRequest request = RequestFor(order, *spec, *here, grant.empty() ? nullptr : &grant.mapped());
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
  run.grace = GraceOf(*spec);
  run.lock = request.isolation.lock;
  runs_.insert_or_assign(record.id, std::move(run));
  Status launched;
  if (record.request.is_elastic()) launched = SetGpusFile(record.id, record.gpus);
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
void Node::AwaitCaller(const LaunchOrder& order, std::shared_ptr<const JobSpec> spec) {
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

void Node::Execute(const Order& order, std::shared_ptr<const JobSpec> spec) {
  if (const auto* launch = std::get_if<LaunchOrder>(&order)) return Launch(*launch, spec);
  if (const auto* forget = std::get_if<ForgetOrder>(&order)) return Forget(forget->job, forget->attempt);
  if (const auto* adopt = std::get_if<AdoptOrder>(&order)) return Adopt(*adopt);
  const JobId job = JobOf(order);
  if (std::holds_alternative<StopOrder>(order)) {
    if (const auto waiting = unclaimed_.extract(job))
      return FailLaunch(waiting.mapped().order.record, "stopped before it started");
  }
  const auto run = runs_.find(job);
  if (run == runs_.end()) {  // The run has ended meanwhile.
    if (std::holds_alternative<GoOrder>(order)) Note("event=go_ignored job=" + ToString(job) + " reason=\"not here\"");
    return;
  }
  if (!IsListening(run->second.record) && !run->second.adopted) {
    run->second.waiting.push_back(order);
    return;
  }
  Deliver(run->second, order);
}

void Node::Deliver(Run& run, const Order& order) {
  const RunRecord& record = run.record;
  if (const auto* stop = std::get_if<StopOrder>(&order)) {
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
  } else if (const auto* send = std::get_if<SignalOrder>(&order)) {
    if (!run.adopted) static_cast<void>(SendSignal(record, send->signal, send->reach));
    else if (send->reach == SignalReach::kFirstProcess) SignalAdopted(run, send->signal, OrphanReach::kFirst);
    else SignalAdopted(run, send->signal, OrphanReach::kTree);
  } else if (const auto* pause = std::get_if<PauseOrder>(&order)) {
    if (run.adopted) SignalAdopted(run, pause->is_paused ? SIGSTOP : SIGCONT, OrphanReach::kTree);
    else static_cast<void>(pause->is_paused ? SendPause(record) : SendContinue(record));
  } else if (const auto* resize = std::get_if<ResizeOrder>(&order)) {
    // A job that misses the news in the file gets it at its next checkpoint.
    static_cast<void>(SetGpusFile(resize->job, resize->gpus));
    if (!resize->is_signalled || run.resize_signal == 0) return;
    if (run.adopted) SignalAdopted(run, run.resize_signal, OrphanReach::kFirst);
    else static_cast<void>(SendSignal(record, run.resize_signal, SignalReach::kFirstProcess));
  } else if (const auto* limit = std::get_if<TimeLimitOrder>(&order)) {
    const JobRecord* live = controller_->Find(limit->job);
    if (live == nullptr) return;
    if (!run.adopted) static_cast<void>(SendTimeLimit(record, live->time_limit));
    else if (!record.awaits_go())
      run.limit_at = live->time_limit > Duration(0) ? AddSaturating(record.started, live->time_limit) : kNever;
  } else if (const auto* go = std::get_if<GoOrder>(&order)) {
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
  for (const Order& order : std::exchange(run->second.waiting, {})) Deliver(run->second, order);
}

void Node::OnRefused(JobId job, std::uint32_t attempt) {
  const auto run = runs_.find(job);
  const JobRecord* live = controller_->Find(job);
  if (run == runs_.end() || run->second.record.attempt != attempt || live == nullptr) return;
  FailLaunch(*live, RefusedRight(live->user), kMachineCannot);
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
  const User user = OwnerOf(record, live).value_or(User{uid, kNoGroup, ""});
  auto removal = std::make_shared<ContainerRemoval>(RemoveContainers(user, path));
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
    count = RefusedDevicesOf(run->second).value_or(count);
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

}  // namespace divvy
