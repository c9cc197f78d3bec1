#include "platform/supervisor/supervisor_life.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/duration_text.h"
#include "model/exit_codes.h"
#include "model/warn_time.h"
#include "platform/os/process_tree.h"
#include "platform/records/cancelled_line.h"
#include "platform/records/step_list_file.h"
#include "platform/records/step_wire.h"
#include "platform/supervisor/node_allocation_start.h"
#include "platform/supervisor/supervisor_files.h"
#include "platform/supervisor/supervisor_job.h"
#include "platform/users/directory_watch.h"
#include "platform/users/fuse_connections.h"

namespace divvy {
namespace {

constexpr Duration kLastKillPause = std::chrono::seconds(1);
constexpr Duration kReportPause = std::chrono::milliseconds(5);
constexpr int kNoteWait = 2'000;  // Milliseconds. A busy machine needs some until the shell ignores signals.
constexpr const char* kNoteScript = R"(trap "" HUP INT QUIT TERM USR1 USR2; printf 'divvy: error: %s\n' "$1" >>"$2")";
constexpr const char* kCutOff = "its node lost contact with the controller: stopped when the lease ended";

}  // namespace

void Supervisor::Run() {
  char name[16];
  std::snprintf(name, sizeof name, "divvy-job-%llu", static_cast<unsigned long long>(request_.job.value()));
  ::prctl(PR_SET_NAME, name);
  watch_ = SupervisorWatch();
  watch_.attempt = request_.attempt;
  watch_.warn = request_.warn;
  watch_.stop_signal = request_.stop_signal;
  watch_.grace = request_.grace;
  watch_.leftover_grace = request_.leftover_grace;
  watch_.time_limit = request_.time_limit;
  watch_.counts_from = request_.started;
  watch_.job = request_.job.value();
  record_.job = request_.job;
  record_.attempt = request_.attempt;
  record_.uid = changes_user_ ? request_.uid : static_cast<std::int64_t>(::geteuid());
  record_.gid = changes_user_ ? request_.gid : static_cast<std::int64_t>(::getegid());
  record_.supervisor = station_.self;
  record_.guard = station_.guard;
  record_.control = station_.address;
  record_.secret = DrawControlSecret();
  record_.commander = station_.setup.daemon_uid;
  record_.lease = request_.lease;
  record_.is_part = watch_.awaits_go = request_.gang.is_set();
  auto claim = ClaimRunRecord(request_, station_.setup);
  if (claim && !claim->is_open()) {
    watch_.job = 0;
    return SayIdle();
  }
  // If the run record could not be created, the supervisor still reports why the job does not start.
  if (claim) record_file_ = *std::move(claim);
  const Status admits = AdmitCommands(station_.control.get(), record_.secret);
  const bool has_started =
      claim && admits ? Start() : Fail((claim ? admits.error() : claim.error()).message, kMachineCannot);
  if (has_started) Watch();
  Finish();
}

bool Supervisor::Fail(std::string text, int code) {
  exit_.failure = std::move(text);
  exit_.code = code;
  return false;
}

bool Supervisor::OpenTerminal(Descriptor log) {
  if (streams_[1].is_open()) {
    const Status good = CheckTerminalStreams(streams_[0].get(), streams_[1].get());
    if (!good) return Fail(good.error().message);
  }
  const uid_t owner = changes_user_ ? static_cast<uid_t>(request_.uid) : static_cast<uid_t>(-1);
  auto pty = Pty::Open(owner, request_.window, std::move(log));
  if (!pty) return Fail(pty.error().message, kMachineCannot);
  pty_ = std::move(*pty);
  return true;
}

FileOwner Supervisor::Owner() const {
  if (!changes_user_) return {};
  return {.uid = static_cast<uid_t>(request_.uid), .gid = static_cast<gid_t>(request_.gid), .groups = &groups_};
}

// No process exists yet. If everything is killed now, a record without a process is left: the job has not started and
// is launched again.
bool Supervisor::AwaitDirectories() {
  const std::vector<OpenedFile> files = FilesToOpen(request_);
  std::vector<std::string> directories;
  for (const OpenedFile& file : files) directories.push_back(DirectoryOf(file.path));
  DirectoryWatch watch(Owner(), std::move(directories));
  auto missing = watch.FirstMissing();
  if (!missing) return true;
  // From the record, the next daemon learns where this supervisor accepts commands.
  RecordWriter lines;
  AddWatch(record_, lines);
  static_cast<void>(!::write(record_file_.get(), lines.text().data(), lines.text().size()));
  const Duration give_up = MonotonicNow() + request_.directory_timeout;
  const std::string wait_limit = DurationText(request_.directory_timeout);
  while (missing) {
    const auto file = std::ranges::find(files, *missing, [](const OpenedFile& one) { return DirectoryOf(one.path); });
    const std::string role(file->role);
    if (watch_.is_stopping) return Fail("stopped before it started");
    const Duration left = give_up - MonotonicNow();
    if (left <= Duration(0)) {
      return Fail("cannot open '" + file->path + "': its directory '" + *missing +
                  "' does not exist and was not created within " + wait_limit +
                  "; create it before the job starts, or choose another file with --" + role);
    }
    const std::string delay = "waits up to " + wait_limit + " for directory '" + *missing + "' of its " + role +
                              " file, which does not exist";
    if (std::exchange(record_.delay, delay) != delay) reports_.ReportState();
    std::array<pollfd, 2> polled = {{{station_.control.get(), POLLIN, 0}, {watch.fd(), POLLIN, 0}}};
    const Duration wait = std::min(left, reports_.is_empty() ? kDirectoryLookPause : kReportPause);
    ::poll(polled.data(), polled.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count()));
    reports_.Flush(WhenFull::kReturn);
    if ((polled[0].revents & POLLIN) != 0) {
      if (auto command = ReceiveCommand(station_.control.get(), station_.setup.commander())) OnCommand(*command);
    }
    missing = watch.FirstMissing();
  }
  record_.delay.clear();
  return !watch_.is_stopping || Fail("stopped before it started");
}

bool Supervisor::PrepareFiles(Descriptor& log) {
  const FileOwner owner = Owner();
  const Status steps =
      MakeStepFolder(station_.setup.run_directory, record_.uid, record_.gid, station_.setup.daemon_gid);
  if (!steps) return Fail(steps.error().message, kMachineCannot);
  if (!request_.script.empty()) {
    auto script = WriteScript(request_, owner);
    if (!script) return Fail(script.error().message, kMachineCannot);
    record_.script = *std::move(script);
  }
  if (request_.is_own_log || (request_.wants_pty && !request_.output.empty())) {
    auto opened = OpenLog(request_, owner, station_.setup);
    if (!opened) return Fail(opened.error().message, request_.is_own_log ? kMachineCannot : kCannotRun);
    log = *std::move(opened);
  }
  return true;
}

// Prepares the job's limits and isolation. Creates nothing for a job without limits.
bool Supervisor::Isolate(MountPlan& mounts) {
  const JobIsolation& wanted = request_.isolation;
  const bool is_mounted = wanted.lock == DeviceLock::kMounts;
  CgroupLimits limits = {
      .memory = request_.memory_limit, .cores = wanted.cores, .processes = wanted.processes, .cpus = wanted.cpus};
  if (!is_mounted) limits.closed_devices = wanted.closed_devices;
  limits.uses_device_controller = wanted.lock == DeviceLock::kController;
  if (!limits.IsEmpty()) {
    auto cgroup =
        JobCgroup::Create(station_.setup.cgroups, station_.setup.run_directory, ToString(request_.job), limits);
    if (!cgroup) return Fail(cgroup.error().message, kMachineCannot);
    if (!cgroup->is_empty()) cgroup_ = *std::move(cgroup);
    record_.cgroup = cgroup_ ? cgroup_->text() : "";
  }
  MountWishes wishes;
  if (is_mounted) wishes.closed_devices = wanted.closed_devices;
  wishes.has_own_shm = wanted.has_own_shm;
  if (wanted.has_own_tmp) {
    const bool is_other = changes_user_;
    auto own_tmp = MakeOwnTmp(is_other ? static_cast<uid_t>(request_.uid) : ::geteuid(),
                              is_other ? static_cast<gid_t>(request_.gid) : ::getegid());
    if (!own_tmp) return Fail(own_tmp.error().message, kMachineCannot);
    record_.own_tmp = wishes.own_tmp = *std::move(own_tmp);
    // The folder above the run directory stays visible to the job: it holds scripts, steps and the daemon's socket.
    const std::string& runs = station_.setup.run_directory;
    wishes.kept = runs.substr(0, runs.rfind('/'));
    if (wishes.kept == "/tmp") wishes.kept = runs;
  }
  if (wishes.IsEmpty()) return true;
  auto plan = PlanMounts(wishes);
  if (!plan) return Fail(plan.error().message, kMachineCannot);
  mounts = *std::move(plan);
  return true;
}

bool Supervisor::Start() {
  // Raising a hard limit requires root, so this machine's rules decide and not the daemon.
  const bool may_raise = ::geteuid() == 0;
  request_.limits =
      UnderRules(std::move(request_.limits), may_raise && request_.uid >= 0
                                                 ? station_.limits.Of(request_.uid, request_.gid, Time(MonotonicNow()))
                                                 : LimitTable());
  if (changes_user_) {
    groups_ = station_.groups.Of(static_cast<uid_t>(request_.uid), static_cast<gid_t>(request_.gid));
  }
  Descriptor log;
  if (!AwaitDirectories() || !PrepareFiles(log)) return false;
  MountPlan mounts;
  if (!Isolate(mounts)) return false;
  if (request_.wants_pty && !OpenTerminal(std::move(log))) return false;

  JobProgram program = ResolveProgram(request_, station_.setup.run_directory + "/" + record_.script);
  Descriptor key;
  if (is_part()) {
    RemoveAllocationFiles(StepsPath());
    program = NodeAllocationProgram(request_.gang, StepsPath(), request_.stop_signal, std::move(program));
    key = OfferKey();
  }
  // The preparation may have taken long, for example on a file system that hung. So the lease is checked again.
  if (lease_.HasEnded(BootNow())) {
    watch_.was_cut_off = true;
    return Fail(kCutOff);
  }
  if (record_.lease.is_set()) watch_.lease_look_at = MonotonicNow();
  WriteAbout();
  RecordWriter watch;
  AddWatch(record_, watch);
  StartedJob job = StartJob({.request = &request_,
                             .program = &program,
                             .groups = &groups_,
                             .changes_user = changes_user_,
                             .own_log = log.get(),
                             .terminal = pty_ ? pty_->slave_path() : "",
                             .cgroup_procs = cgroup_ ? cgroup_->procs_files() : std::vector<std::string>(),
                             .mounts = mounts.steps.empty() ? nullptr : &mounts,
                             .allocation_main = is_part() ? &station_.setup.allocation_main : nullptr,
                             .key = key.get(),
                             .record = record_file_.get(),
                             .watch = watch.text()});
  record_.started = job.started;
  if (!job.failure.empty()) return Fail(job.failure, job.failure_code);
  record_.process = job.process;
  namespaces_ = std::move(job.namespaces);
  watch_.first_process = static_cast<pid_t>(job.process.pid);
  PassStreams();
  if (is_part()) {
    if (!allocation_channel_.is_open()) watch_.look_at = MonotonicNow();
    return true;
  }
  if (watch_.counts_from == kNoTime) watch_.counts_from = record_.started;
  SetTimeLimit(watch_.time_limit);
  return true;
}

// Writes the job's description into the run record. This is a separate write, because the new process composes the next
// lines in a small buffer.
void Supervisor::WriteAbout() {
  if (request_.about.empty()) return;
  RecordWriter about;
  about.Add("about", request_.about);
  static_cast<void>(!::write(record_file_.get(), about.text().data(), about.text().size()));
}

// The streams are the first client of a terminal. Without a terminal only the job holds them from now on, so that their
// readers see the end.
void Supervisor::PassStreams() {
  if (pty_ && streams_[1].is_open()) pty_->Attach(0, std::move(streams_[0]), std::move(streams_[1]));
  for (ForeignDescriptor& stream : streams_) stream.Reset();
  request_.streams.fill(-1);
  HoldOutputs();
}

void Supervisor::Watch() {
  reports_.ReportState();
  sigset_t wakes;
  ::sigfillset(&wakes);
  ::sigdelset(&wakes, SIGCHLD);
  std::vector<pollfd> polled;
  while (!Reap()) {
    std::vector<pollfd> terminal;
    if (pty_) pty_->Watch(terminal);
    else held_.Watch(terminal);
    polled.assign(1, {.fd = station_.control.get(), .events = POLLIN, .revents = 0});
    polled.insert(polled.end(), terminal.begin(), terminal.end());
    const std::size_t channel = polled.size();
    if (allocation_channel_.is_open())
      polled.push_back({.fd = allocation_channel_.get(), .events = POLLIN, .revents = 0});

    const Duration due = NextDue();
    const Duration wait = std::max(Duration(0), due == kNeverDue ? due : due - MonotonicNow());
    const timespec timeout = {.tv_sec = wait.count() / 1'000'000'000, .tv_nsec = wait.count() % 1'000'000'000};
    const int ready = ::ppoll(polled.data(), polled.size(), due == kNeverDue ? nullptr : &timeout, &wakes);

    reports_.Flush(WhenFull::kReturn);
    OnTimers(MonotonicNow());
    if (ready <= 0) continue;
    if (channel < polled.size() && polled[channel].revents != 0) HearAllocation();
    if ((polled[0].revents & POLLIN) != 0) {
      if (auto command = ReceiveCommand(station_.control.get(), station_.setup.commander())) {
        OnCommand(*command);
        continue;  // The command may have attached a client that `polled` does not contain.
      }
    }
    terminal.assign(polled.begin() + 1, polled.begin() + static_cast<std::ptrdiff_t>(channel));
    if (!pty_) held_.OnPolled(terminal);
    if (!pty_) continue;
    pty_->OnPolled(terminal);
    for (const std::uint64_t attachment : pty_->TakeDetached()) reports_.Report("detached", attachment);
  }
}

// Returns true if no process of the job is left. We are a subreaper, so every orphan becomes our child, and "no
// children" means that the whole tree is gone.
bool Supervisor::Reap() {
  bool has_children = true;
  while (watch_.ReapOne(has_children)) {
  }
  if (!has_children) return true;
  if (watch_.first_process == 0 && !watch_.ends_leftovers) {
    watch_.ends_leftovers = true;
    BeginStop(watch_.stop_signal, watch_.leftover_grace);
  }
  return false;
}

Duration Supervisor::NextDue() const {
  Duration due = std::min({watch_.warn_at, watch_.limit_at, watch_.kill_at, watch_.look_at, watch_.lease_look_at});
  if (!reports_.is_empty()) due = std::min(due, MonotonicNow() + kReportPause);
  return due;
}

void Supervisor::OnTimers(Duration now) {
  if (watch_.look_at <= now) LookAtAllocation();
  if (watch_.lease_look_at <= now) LookAtLease();
  if (watch_.warn_at <= now) {
    watch_.warn_at = kNeverDue;
    if (!watch_.warn.batch_only && request_.is_slurm_script) SignalSteps(watch_.warn.signal);
    else if (!watch_.warn.batch_only) SignalDescendants(::getpid(), watch_.warn.signal);
    else if (watch_.first_process != 0) ::kill(watch_.first_process, watch_.warn.signal);
  }
  if (watch_.limit_at <= now) {
    watch_.hit_time_limit = true;
    if (request_.is_slurm_script) NoteTimeLimit();
    BeginStop(watch_.stop_signal, watch_.grace);
  }
  if (watch_.kill_at <= now) {
    // Repeats, because a tree can grow while it is walked, and a process can hang in the kernel.
    SignalDescendants(::getpid(), SIGKILL);
    if (cgroup_) cgroup_->Kill();
    // A process that survives may wait for a file system that it serves itself.
    if (watch_.kill_pause == kLastKillPause)
      AbortFuseServedBy(DescendantsOf(::getpid()), static_cast<uid_t>(record_.uid));
    // With very many processes and descriptors, this work takes at most a tenth of the time.
    watch_.kill_at = DueAfter(MonotonicNow(), std::max(watch_.kill_pause, 9 * (MonotonicNow() - now)));
    watch_.kill_pause = std::min(2 * watch_.kill_pause, kLastKillPause);
  }
}

// If no step runs, the script's other commands get the signal. The tasks of a step can all be on other nodes of a gang.
// Only the first node has the script and the list of all steps.
void Supervisor::SignalSteps(int signal) {
  const auto runs = [](const StepLine& step) { return step.state == StepState::kRunning; };
  const bool has_commands = !is_part() || (!is_guard() && request_.gang.index == 0 &&
                                           std::ranges::none_of(ReadStepListFile(StepsPath()), runs));
  SignalTasks(::getpid(), signal, has_commands ? std::optional(watch_.first_process) : std::nullopt);
}

void Supervisor::LookAtLease() {
  lease_.Look([this](int signal, Duration grace) { BeginStop(signal, grace); });
}

void Supervisor::BeginStop(int signal, Duration grace) {
  watch_.is_stopping = true;
  watch_.warn_at = kNeverDue;
  watch_.limit_at = kNeverDue;
  watch_.kill_at = std::min(watch_.kill_at, DueAfter(MonotonicNow(), grace));
  if (grace <= Duration(0)) return;  // SIGKILL follows at once.
  EndDescendants(::getpid(), signal);
  // An interactive shell ignores SIGTERM; SIGHUP, as at the end of its terminal, ends it.
  if (pty_ && watch_.first_process != 0 && IgnoresSignal(watch_.first_process, signal))
    ::kill(watch_.first_process, SIGHUP);
}

void Supervisor::SetTimeLimit(Duration limit) {
  if (watch_.is_stopping) return;
  watch_.warn_at = kNeverDue;
  watch_.limit_at = kNeverDue;
  watch_.time_limit = limit;
  if (limit <= Duration(0) || watch_.awaits_go || watch_.counts_from == kNoTime) return;
  const Duration left = AddSaturating(watch_.counts_from, limit) - WallNow();
  const Duration now = MonotonicNow();
  watch_.limit_at = DueAfter(now, left);
  if (watch_.warn.signal != 0) watch_.warn_at = DueAfter(now, left - WarnBefore(limit, watch_.warn.before));
}

void Supervisor::OnCommand(SupervisorCommand& command) {
  const RecordFields fields(command.text);
  if (!IsCommandFor(fields, record_)) return;
  const std::string_view name = fields.Text("command");
  const int signal = static_cast<int>(std::clamp<std::int64_t>(fields.Number("signal"), 0, NSIG - 1));
  const WindowSize window = {.rows = static_cast<int>(fields.Number("rows")),
                             .columns = static_cast<int>(fields.Number("columns"))};
  if (name == "stop") {
    // Checks the lease first, so that the job's end names the reason that came first.
    if (record_.lease.is_set()) LookAtLease();
    const Duration grace(fields.Number("grace"));
    // A living agent also sends the stop, repeatedly. The job already got its signal.
    if (watch_.was_cut_off) watch_.kill_at = std::min(watch_.kill_at, DueAfter(MonotonicNow(), grace));
    else BeginStop(signal, grace);
  } else if (name == "signal" && fields.Number("first_process") == 1) {
    if (watch_.first_process != 0) ::kill(watch_.first_process, signal);
  } else if (name == "signal") {
    if (fields.Number("others") == 1) SignalSteps(signal);
    else SignalDescendants(::getpid(), signal);
  } else if (name == "pause") {
    if (!watch_.is_stopping) StopDescendants(::getpid());
  } else if (name == "continue") {
    SignalDescendants(::getpid(), SIGCONT);
  } else if (name == "time-limit") {
    // Every new daemon sends the limit again; a warning that was given is not repeated.
    const Duration limit(fields.Number("limit"));
    if (limit != watch_.time_limit) SetTimeLimit(limit);
  } else if (name == "attach") {
    if (pty_) pty_->Resize(window);
    Attach(static_cast<std::uint64_t>(fields.Number("attachment")), command.descriptors);
  } else if (name == "resize") {
    if (pty_) pty_->Resize(window);
  } else if (name == "go") {
    Go();
  } else if (name == "step-call" && command.descriptors.size() == 1) {
    CallStep(command.descriptors[0].get(), fields.Number("stops_only") == 1);
  } else if (name == "ping") {
    reports_.ReportState();
  }
}

// Starts this executable as the job's user, in the job's cgroup and mounts, like a program of the job itself.
void Supervisor::CallStep(int socket, bool stops_only) {
  const auto refuse = [&](std::string_view why) {
    const std::string text = "divvy: error: " + std::string(why) + "\n";
    const std::string frames = EncodeStepFrame(StepWord::kSay, 0, text) + EncodeStepFrame(StepWord::kExit, 1, "");
    static_cast<void>(!::send(socket, frames.data(), frames.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  };
  if (watch_.is_stopping) return refuse("the job is ending, and no step can be started in it");
  if (watch_.first_process == 0) return refuse("the job has not started, and no step can be started in it yet");
  // A guard knows neither the job's user nor its namespaces: its child would be root, with the caller's environment.
  if (is_guard()) return refuse("its supervisor was killed, and no step can be started in the job from outside");
  // Uses a descriptor, because a path would be resolved in the mounts of the job.
  const Descriptor own(::open("/proc/self/exe", O_PATH | O_CLOEXEC));
  std::error_code unknown;
  const std::string shown = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  JobProgram program;
  program.argv = {shown, "internal-inside", StepsPath()};
  if (stops_only) program.argv.emplace_back("--stops-only");
  program.executable = own.get();
  program.shown_name = shown;
  const StartedJob started = StartInside(program, request_.directory, socket);
  if (!started.failure.empty()) refuse(started.failure);
}

StartedJob Supervisor::StartInside(const JobProgram& program, const std::string& directory, int input) {
  LaunchRequest request;
  request.job = request_.job;
  request.uid = request_.uid;
  request.gid = request_.gid;
  request.environment = request_.environment;
  request.directory = directory;
  request.streams[0] = input;
  request.limits = request_.limits;
  request.umask = request_.umask;
  request.isolation.keeps_privileges = request_.isolation.keeps_privileges;
  return StartJob({.request = &request,
                   .program = &program,
                   .groups = &groups_,
                   .changes_user = changes_user_,
                   .cgroup_procs = cgroup_ ? cgroup_->procs_files() : std::vector<std::string>(),
                   .is_another = true,
                   .joins = &namespaces_});
}

// A process of the job's user opens the file. If that takes long, such as on a file system that hangs, the job is
// stopped meanwhile. The process ignores the usual stop signals, so that only the final SIGKILL ends it early. A job of
// root gets no line, because another user may have replaced the file.
void Supervisor::NoteTimeLimit() {
  std::string file = request_.error.empty() ? request_.output : request_.error;
  if (file.empty() || (request_.error.empty() && request_.is_own_log) || watch_.first_process == 0 || is_guard() ||
      record_.uid == 0)
    return;
  if (!file.starts_with('/')) file = request_.directory + "/" + file;
  constexpr std::string_view kNode = "SLURMD_NODENAME=";
  const auto node = std::ranges::find_if(request_.environment,
                                         [&](const std::string& variable) { return variable.starts_with(kNode); });
  const std::string line = CancelledLine(
      "JOB " + ToString(request_.job), node == request_.environment.end() ? "" : node->substr(kNode.size()), WallNow());
  JobProgram program;
  program.argv = {"/bin/sh", "-c", kNoteScript, "sh", line, std::move(file)};
  program.candidates = {"/bin/sh"};
  program.shown_name = "/bin/sh";
  const StartedJob started = StartInside(program, "/", -1);
  if (!started.failure.empty()) return;
  const Descriptor written(static_cast<int>(::syscall(SYS_pidfd_open, started.process.pid, 0)));
  if (!written.is_open()) return;
  pollfd ended = {.fd = written.get(), .events = POLLIN, .revents = 0};
  ::poll(&ended, 1, kNoteWait);
}

// The Pty relays a terminal's output and detaches a client without a reader, so these descriptors are not needed there.
void Supervisor::HoldOutputs() {
  std::array<ForeignDescriptor, 3> ends = std::move(read_ends_);
  if (pty_ || !std::ranges::all_of(ends, &ForeignDescriptor::is_open)) return;
  for (const auto& [fd, name] : {std::pair(ends[0].get(), "output"), std::pair(ends[1].get(), "error")}) {
    if (!CheckStream(fd, StreamUse::kRead, name)) return;
  }
  held_.Hold(std::move(ends[0]), std::move(ends[1]), std::move(ends[2]), [this] {
    LaunchRequest request;
    request.output = request_.held_log;
    request.is_own_log = true;
    request.appends_output = true;
    return OpenLog(request, Owner(), station_.setup);
  });
}

// We write to these streams ourselves with root's credentials, which a service at a socket's other end may trust. So
// that end must belong to the job's user or the daemon's user, and never to root. A daemon with our own rights has
// checked the streams already.
Status Supervisor::CheckStream(int fd, StreamUse use, const char* name) const {
  Status good;
  for (const std::int64_t owner : {record_.uid, station_.setup.daemon_uid}) {
    if (!station_.setup.serves_another() || owner == 0) continue;  // CheckPassedStream() accepts all streams of root.
    good = CheckPassedStream(fd, use, owner, name);
    if (good) break;
  }
  return good;
}

Status Supervisor::CheckTerminalStreams(int in, int out) const {
  DIVVY_CHECK(CheckStream(in, StreamUse::kRead, "standard input"));
  return CheckStream(out, StreamUse::kWritten, "standard output");
}

void Supervisor::Attach(std::uint64_t attachment, std::vector<ForeignDescriptor>& descriptors) {
  if (pty_ && descriptors.size() == 2 && CheckTerminalStreams(descriptors[0].get(), descriptors[1].get())) {
    pty_->Attach(attachment, std::move(descriptors[0]), std::move(descriptors[1]));
    for (const std::uint64_t gone : pty_->TakeDetached()) reports_.Report("detached", gone);
  } else {
    reports_.Report("detached", attachment);
  }
}

void Supervisor::Finish() {
  if (pty_) pty_->Finish();
  held_.Finish();
  if (cgroup_) {
    exit_.was_oom_killed = cgroup_->SawOutOfMemoryKill();
    record_.refused_devices = cgroup_->RefusedDevices().value_or(0);
  }
  if (exit_.failure.empty()) {
    exit_.code = watch_.code;
    exit_.signal = watch_.signal;
    // The exit is unknown only if the end of the first process could not be seen, because a guard was killed at the
    // wrong moment.
    exit_.is_known = watch_.has_first_ended;
    if (is_part() && exit_.code != 0)
      exit_.failure = ReadAllocationReport(StepsPath()).value_or(AllocationReport()).failure;
    if (!exit_.failure.empty()) exit_.code = WithoutMachinesFault(exit_.code);
  }
  if (is_part()) RemoveAllocationFiles(StepsPath());
  record_.was_cut_off = watch_.was_cut_off;
  if (record_.was_cut_off) exit_.failure = kCutOff;
  exit_.hit_time_limit = watch_.hit_time_limit;
  exit_.cpu_time = watch_.cpu_time;
  if (cgroup_) exit_.memory_peak = cgroup_->Peak();
  // A cgroup that only denies devices does not count memory.
  if (exit_.memory_peak == Bytes(0)) exit_.memory_peak = Bytes(std::int64_t{watch_.memory_peak_kib} * 1024);
  if (!record_.script.empty()) ::unlink(record_.script.c_str());
  if (cgroup_) cgroup_->Remove();
  if (!record_.own_tmp.empty()) SetAsideOwnTmp(record_.own_tmp);
  record_.exit = exit_;
  record_.ended = WallNow();
  if (record_file_.is_open()) WriteExit();
  // Tells the launcher that this supervisor is idle before the job's end is reported: the daemon answers the report
  // with the next job, which this supervisor can then take.
  if (record_.own_tmp.empty()) SayIdle();
  reports_.Report("exited");
  reports_.Flush(WhenFull::kWait);
  watch_.job = 0;
  if (record_.own_tmp.empty()) return;
  // Old /tmp folders are removed after the report: they may have many files, and the job keeps its GPUs until the
  // report.
  record_file_.Reset();
  RemoveOldTmps();
  SayIdle();
}

void Supervisor::SayIdle() {
  // A supervisor whose guard has gone takes no further job.
  if (station_.guard.pid != 0 && ::getppid() != station_.guard.pid) return;
  const char byte = 0;
  // If the launcher has gone, the next read detects that.
  ::send(station_.channel, &byte, sizeof byte, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Supervisor::WriteExit() {
  RecordWriter record;
  if (watch_.first_process == 0 && record_.process.pid == 0) {
    // The job never ran, so lines of the record about a process, which a failed start has written, are removed.
    if (::ftruncate(record_file_.get(), 0) != 0) return;
    WriteAbout();
    AddWatch(record_, record);
  }
  AddExit(record_, record);
  // If the disk is full, the record has no exit; then only the report says how the job ended.
  if (::write(record_file_.get(), record.text().data(), record.text().size()) < 0) return;
}

}  // namespace divvy
