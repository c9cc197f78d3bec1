#include "platform/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>

#include "platform/launch_message.h"
#include "platform/process_tree.h"
#include "platform/pty.h"
#include "platform/supervisor_control.h"
#include "platform/supervisor_files.h"
#include "platform/supervisor_job.h"
#include "platform/user_identity.h"

namespace divvy {
namespace {

// The report socket, from the run directory: the supervisor's working directory.
const std::string kReports = "reports";
constexpr Duration kNeverDue = Duration::max();
constexpr Duration kFirstKillPause = std::chrono::milliseconds(5);
constexpr Duration kLastKillPause = std::chrono::seconds(1);
constexpr Duration kReportPause = std::chrono::milliseconds(5);

Duration ReadClock(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}
Duration Mono() { return ReadClock(CLOCK_MONOTONIC); }
Duration CpuTime(const rusage& usage) {
  const auto duration = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return duration(usage.ru_utime) + duration(usage.ru_stime);
}
Time Wall() { return Time(ReadClock(CLOCK_REALTIME)); }

Duration After(Duration now, Duration wait) {
  const Duration positive = std::max(wait, Duration(0));
  return kNeverDue - now < positive ? kNeverDue : now + positive;
}

void IgnoreWake(int) {}

// What a supervisor keeps from one job to the next.
struct Station {
  SupervisorSetup setup;
  int channel = -1;
  ProcessIdentity self;
  Descriptor control;
  std::string address;  // Of `control`.
  UserGroups groups;
};

class Supervisor {
 public:
  Supervisor(LaunchRequest request, Station& station)
      : request_(std::move(request)), station_(station), changes_user_(::geteuid() == 0 && request_.uid > 0) {}

  /// Returns when the job is over and reported.
  void Run();

 private:
  // Before the start. Those that return false have set exit_.failure.
  bool Fail(std::string text, int code = 126);
  bool PrepareFiles(Descriptor& log);
  bool OpenTerminal(Descriptor log);
  bool Start();
  void CloseStreams();

  // While it runs.
  void Watch();
  bool Reap();
  Duration NextDue() const;
  void OnTimers(Duration now);
  void OnCommand(SupervisorCommand& command);
  void BeginStop(int signal, Duration grace);
  void SetTimeLimit(Duration limit);
  void Attach(std::uint64_t attachment, std::vector<Descriptor>& descriptors);
  void Report(std::string_view kind, std::uint64_t attachment = 0);
  void FlushReports(WhenFull when_full);

  void Finish();
  void WriteExit();
  void SayIdle();

  LaunchRequest request_;
  Station& station_;
  bool changes_user_;
  std::vector<gid_t> groups_;  // The user's, when the job changes user.

  Descriptor record_file_;
  RunRecord record_;
  std::optional<MemoryCgroup> cgroup_;
  std::optional<Pty> pty_;
  std::vector<std::string> reports_;  // Not yet taken by the daemon's mailbox.

  pid_t first_process_ = 0;  // 0 once it has been reaped.
  bool ends_leftovers_ = false;
  bool is_stopping_ = false;
  Exit exit_;
  Duration cpu_before_{0};  // Used by the children of earlier jobs.
  long memory_peak_kib_ = 0;
  // Due times, monotonic.
  Duration warn_at_ = kNeverDue;
  Duration limit_at_ = kNeverDue;
  Duration kill_at_ = kNeverDue;
  Duration kill_pause_ = kFirstKillPause;
};

void Supervisor::Run() {
  char name[16];
  std::snprintf(name, sizeof name, "divvy-job-%llu", static_cast<unsigned long long>(request_.job.value()));
  ::prctl(PR_SET_NAME, name);
  rusage usage = {};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  cpu_before_ = CpuTime(usage);
  record_.job = request_.job;
  record_.attempt = request_.attempt;
  record_.uid = changes_user_ ? request_.uid : static_cast<std::int64_t>(::geteuid());
  record_.supervisor = station_.self;
  record_.control = station_.address;
  auto claim = ClaimRunRecord(request_, station_.setup.launcher);
  if (claim && !claim->is_open()) return SayIdle();
  // Without a record it can still report why there is no job.
  if (claim) record_file_ = *std::move(claim);
  const bool has_started = claim ? Start() : Fail(claim.error().message);
  if (has_started) Watch();
  Finish();
}

bool Supervisor::Fail(std::string text, int code) {
  exit_.failure = std::move(text);
  exit_.code = code;
  return false;
}

bool Supervisor::OpenTerminal(Descriptor log) {
  const uid_t owner = changes_user_ ? static_cast<uid_t>(request_.uid) : static_cast<uid_t>(-1);
  auto pty = Pty::Open(owner, request_.window, std::move(log));
  if (!pty) return Fail(pty.error().message);
  pty_ = std::move(*pty);
  return true;
}

bool Supervisor::PrepareFiles(Descriptor& log) {
  FileOwner owner;
  if (changes_user_) {
    owner = {.uid = static_cast<uid_t>(request_.uid), .gid = static_cast<gid_t>(request_.gid), .groups = &groups_};
  }
  if (!request_.script.empty()) {
    auto script = WriteScript(request_, owner);
    if (!script) return Fail(script.error().message);
    record_.script = *std::move(script);
  }
  if (request_.is_own_log || (request_.wants_pty && !request_.output.empty())) {
    auto opened = OpenLog(request_, owner);
    if (!opened) return Fail(opened.error().message);
    log = *std::move(opened);
  }
  return true;
}

bool Supervisor::Start() {
  if (changes_user_) {
    groups_ = station_.groups.Of(static_cast<uid_t>(request_.uid), static_cast<gid_t>(request_.gid));
  }
  Descriptor log;
  if (!PrepareFiles(log)) return false;
  if (request_.memory_limit > Bytes(0) && station_.setup.memory_root) {
    auto cgroup = MemoryCgroup::Create(*station_.setup.memory_root, station_.setup.run_directory,
                                       ToString(request_.job), request_.memory_limit);
    if (!cgroup) return Fail(cgroup.error().message);
    cgroup_ = *std::move(cgroup);
    record_.cgroup = cgroup_->directory();
  }
  if (request_.wants_pty && !OpenTerminal(std::move(log))) return false;

  const JobProgram program = ResolveProgram(request_, station_.setup.run_directory + "/" + record_.script);
  RecordWriter watch;
  AddWatch(record_, watch);
  const StartedJob job = StartJob({.request = &request_,
                                   .program = &program,
                                   .groups = &groups_,
                                   .changes_user = changes_user_,
                                   .own_log = log.get(),
                                   .terminal = pty_ ? pty_->slave_path() : "",
                                   .cgroup_procs = cgroup_ ? cgroup_->procs_file() : "",
                                   .record = record_file_.get(),
                                   .watch = watch.text()});
  record_.started = job.started;
  if (!job.failure.empty()) return Fail(job.failure, job.failure_code);
  record_.process = job.process;
  first_process_ = static_cast<pid_t>(job.process.pid);
  CloseStreams();
  SetTimeLimit(request_.time_limit);
  return true;
}

// A terminal's streams are its first client; else the job alone holds them now, so that their readers see its end.
void Supervisor::CloseStreams() {
  std::array<Descriptor, 3> streams;
  for (std::size_t i = 0; i < streams.size(); ++i) streams[i].Reset(std::exchange(request_.streams[i], -1));
  if (pty_ && streams[1].is_open()) pty_->Attach(0, std::move(streams[0]), std::move(streams[1]));
}

void Supervisor::Watch() {
  Report("started");
  sigset_t wakes;
  ::sigfillset(&wakes);
  ::sigdelset(&wakes, SIGCHLD);
  std::vector<pollfd> polled;
  while (!Reap()) {
    std::vector<pollfd> terminal;
    if (pty_) pty_->Watch(terminal);
    polled.assign(1, {.fd = station_.control.get(), .events = POLLIN, .revents = 0});
    polled.insert(polled.end(), terminal.begin(), terminal.end());

    const Duration due = NextDue();
    const Duration wait = std::max(Duration(0), due == kNeverDue ? due : due - Mono());
    const timespec timeout = {.tv_sec = wait.count() / 1'000'000'000, .tv_nsec = wait.count() % 1'000'000'000};
    const int ready = ::ppoll(polled.data(), polled.size(), due == kNeverDue ? nullptr : &timeout, &wakes);

    FlushReports(WhenFull::kReturn);
    OnTimers(Mono());
    if (ready <= 0) continue;
    if ((polled[0].revents & POLLIN) != 0) {
      if (auto command = ReceiveCommand(station_.control.get(), ::geteuid())) {
        OnCommand(*command);
        continue;  // It may have attached a client, which `polled` does not know.
      }
    }
    if (!pty_) continue;
    terminal.assign(polled.begin() + 1, polled.end());
    pty_->OnPolled(terminal);
    for (const std::uint64_t attachment : pty_->TakeDetached()) Report("detached", attachment);
  }
}

// True when no process of the job is left. Every orphan becomes our child (we are a subreaper), so "no children" says
// that the whole tree has gone.
bool Supervisor::Reap() {
  int status = 0;
  pid_t pid = 0;
  rusage usage = {};
  while ((pid = ::wait4(-1, &status, WNOHANG, &usage)) > 0) {
    memory_peak_kib_ = std::max(memory_peak_kib_, usage.ru_maxrss);
    if (pid != first_process_) continue;
    first_process_ = 0;
    if (WIFSIGNALED(status)) exit_.signal = WTERMSIG(status);
    exit_.code = exit_.signal != 0 ? 128 + exit_.signal : WEXITSTATUS(status);
  }
  if (pid < 0 && errno == ECHILD) return true;
  if (first_process_ == 0 && !ends_leftovers_) {
    ends_leftovers_ = true;
    BeginStop(request_.stop_signal, request_.leftover_grace);
  }
  return false;
}

Duration Supervisor::NextDue() const {
  Duration due = std::min({warn_at_, limit_at_, kill_at_});
  if (!reports_.empty()) due = std::min(due, Mono() + kReportPause);
  return due;
}

void Supervisor::OnTimers(Duration now) {
  if (warn_at_ <= now) {
    warn_at_ = kNeverDue;
    if (!request_.warn.batch_only) SignalDescendants(::getpid(), request_.warn.signal);
    else if (first_process_ != 0) ::kill(first_process_, request_.warn.signal);
  }
  if (limit_at_ <= now) {
    exit_.hit_time_limit = true;
    BeginStop(request_.stop_signal, request_.grace);
  }
  if (kill_at_ <= now) {
    // Again and again: a tree can grow while it is walked, and a process can hang in the kernel.
    SignalDescendants(::getpid(), SIGKILL);
    kill_at_ = After(Mono(), kill_pause_);
    kill_pause_ = std::min(2 * kill_pause_, kLastKillPause);
  }
}

void Supervisor::BeginStop(int signal, Duration grace) {
  is_stopping_ = true;
  warn_at_ = kNeverDue;
  limit_at_ = kNeverDue;
  kill_at_ = std::min(kill_at_, After(Mono(), grace));
  if (grace <= Duration(0)) return;  // SIGKILL follows at once.
  SignalDescendants(::getpid(), signal);
  SignalDescendants(::getpid(), SIGCONT);  // One that is paused cannot end by itself.
}

void Supervisor::SetTimeLimit(Duration limit) {
  if (is_stopping_) return;
  warn_at_ = kNeverDue;
  limit_at_ = kNeverDue;
  if (limit <= Duration(0)) return;
  const Time start = request_.started == kNoTime ? record_.started : request_.started;
  const Duration left = AddSaturating(start, limit) - Wall();
  const Duration now = Mono();
  limit_at_ = After(now, left);
  if (request_.warn.signal != 0) warn_at_ = After(now, left - request_.warn.before);
}

void Supervisor::OnCommand(SupervisorCommand& command) {
  const RecordFields fields(command.text);
  if (fields.Number("job") != static_cast<std::int64_t>(record_.job.value())) return;
  if (fields.Number("attempt") != record_.attempt) return;
  const std::string_view name = fields.Text("command");
  const int signal = static_cast<int>(std::clamp<std::int64_t>(fields.Number("signal"), 0, NSIG - 1));
  const WindowSize window = {.rows = static_cast<int>(fields.Number("rows")),
                             .columns = static_cast<int>(fields.Number("columns"))};
  if (name == "stop") {
    BeginStop(signal, Duration(fields.Number("grace")));
  } else if (name == "signal" && fields.Number("first_process") == 1) {
    if (first_process_ != 0) ::kill(first_process_, signal);
  } else if (name == "signal") {
    SignalDescendants(::getpid(), signal);
  } else if (name == "pause") {
    if (!is_stopping_) StopDescendants(::getpid());
  } else if (name == "continue") {
    SignalDescendants(::getpid(), SIGCONT);
  } else if (name == "time-limit") {
    SetTimeLimit(Duration(fields.Number("limit")));
  } else if (name == "attach") {
    if (pty_) pty_->Resize(window);
    Attach(static_cast<std::uint64_t>(fields.Number("attachment")), command.descriptors);
  } else if (name == "resize") {
    if (pty_) pty_->Resize(window);
  } else if (name == "ping") {
    Report("started");
  }
}

void Supervisor::Attach(std::uint64_t attachment, std::vector<Descriptor>& descriptors) {
  if (pty_ && descriptors.size() == 2) {
    pty_->Attach(attachment, std::move(descriptors[0]), std::move(descriptors[1]));
    for (const std::uint64_t gone : pty_->TakeDetached()) Report("detached", gone);
  } else {
    Report("detached", attachment);
  }
}

void Supervisor::Report(std::string_view kind, std::uint64_t attachment) {
  RecordWriter report;
  report.Add("report", kind);
  if (attachment != 0) report.Add("attachment", static_cast<std::int64_t>(attachment));
  AddWatch(record_, report);
  AddProcess(record_, report);
  if (record_.exit) AddExit(record_, report);
  reports_.push_back(report.text());
  FlushReports(WhenFull::kReturn);
}

void Supervisor::FlushReports(WhenFull when_full) {
  std::size_t sent = 0;
  while (sent < reports_.size() && SendReport(station_.control.get(), kReports, reports_[sent], when_full)) ++sent;
  reports_.erase(reports_.begin(), reports_.begin() + static_cast<std::ptrdiff_t>(sent));
}

void Supervisor::Finish() {
  if (pty_) pty_->Finish();
  if (cgroup_) exit_.was_oom_killed = cgroup_->SawOutOfMemoryKill();
  rusage usage = {};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  exit_.cpu_time = CpuTime(usage) - cpu_before_;
  exit_.memory_peak = cgroup_ ? cgroup_->Peak() : Bytes(std::int64_t{memory_peak_kib_} * 1024);
  if (!record_.script.empty()) ::unlink(record_.script.c_str());
  if (cgroup_) cgroup_->Remove();
  record_.exit = exit_;
  record_.ended = Wall();
  if (record_file_.is_open()) WriteExit();
  // Before the report: the daemon answers it with the next job, which need not wait for another process then.
  SayIdle();
  Report("exited");
  FlushReports(WhenFull::kWait);
}

void Supervisor::SayIdle() {
  const char byte = 0;
  // Nobody there: the launcher has gone, and the next read says so.
  ::send(station_.channel, &byte, sizeof byte, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Supervisor::WriteExit() {
  RecordWriter record;
  if (first_process_ == 0 && record_.process.pid == 0) {
    // It never ran: what the attempt to start it may have written about a process is void.
    if (::ftruncate(record_file_.get(), 0) != 0) return;
    AddWatch(record_, record);
  }
  AddExit(record_, record);
  // A full disk keeps the exit from the record; then the report is all there is.
  if (::write(record_file_.get(), record.text().data(), record.text().size()) < 0) return;
}

}  // namespace

void RunSupervisor(int channel, SupervisorSetup setup) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::setpgid(0, 0);  // What is sent to the launcher's group is not for us.
  // Handled, so that ppoll() wakes up; all signals stay blocked outside it.
  struct sigaction action = {};
  action.sa_handler = IgnoreWake;
  action.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &action, nullptr);

  Station station = {.setup = std::move(setup), .channel = channel, .self = IdentifyProcess(::getpid())};
  auto control = OpenControlSocket();
  if (!control) ::_exit(1);  // Out of descriptors or memory: the launcher sees us go and tries another.
  station.control = std::move(control->first);
  station.address = std::move(control->second);
  LaunchFrameReader reader(channel);
  while (true) {
    auto frame = reader.Next();
    if (!frame && !reader.ReadMore()) ::_exit(0);
    if (!frame) continue;
    LaunchRequest request = DecodeLaunch(frame->body(), frame->streams);
    for (Descriptor& stream : frame->streams) stream.Release();  // The request's now.
    Supervisor(std::move(request), station).Run();
    ::prctl(PR_SET_NAME, "divvy-idle");
  }
}

}  // namespace divvy
