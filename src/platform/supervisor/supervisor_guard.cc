// A supervisor and its guard. The guard is the supervisor's parent and only waits for its end. It reads no messages,
// has no socket or file open, and stays with the job even if all other divvy processes are killed. If the supervisor is
// killed, the kernel reparents the job's processes to the guard, the nearest subreaper above them. The guard then
// continues as their supervisor.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "platform/os/process_tree.h"
#include "platform/supervisor/launch_message.h"
#include "platform/supervisor/supervisor_life.h"

namespace divvy {
namespace {

void IgnoreWake(int) {}

void OpenControl(Station& station) {
  station.self = IdentifyProcess(::getpid());
  auto control = OpenControlSocket();
  // Without descriptors or memory, an idle supervisor exits and the launcher tries another; a guard already has a job,
  // so it retries.
  if (!control && station.channel >= 0) ::_exit(1);
  while (!control) {
    ::poll(nullptr, 0, 100);
    control = OpenControlSocket();
  }
  station.control = std::move(control->first);
  station.address = std::move(control->second);
}

[[noreturn]] void Guard(pid_t child, Station& station) {
  ::prctl(PR_SET_NAME, "job-guard");
  // The guard closes its copy of the channel, so that the launcher notices the supervisor's end.
  ::close(std::exchange(station.channel, -1));
  const ProcessIdentity supervisor = IdentifyProcess(child);
  siginfo_t end = {};
  while (::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED) != 0 && errno == EINTR) {
  }
  if (station.watch->job == 0) ::_exit(0);
  OpenControl(station);
  LaunchRequest request;
  request.job = JobId(station.watch->job);
  request.attempt = station.watch->attempt;
  Supervisor(std::move(request), station).TakeOver(supervisor);
  ::_exit(0);
}

}  // namespace

bool Supervisor::FindRecord(const ProcessIdentity& supervisor) {
  watch_.NoteFirst();
  while (true) {
    // Looks for ended children before it reads the record. A process is in the record before it can end, so its end is
    // not missed.
    bool has_children = true;
    const bool has_reaped = watch_.ReapOne(has_children);
    auto record = ReadRunRecord(".", request_.job);
    if (record && record->attempt == request_.attempt && record->supervisor == supervisor &&
        (record->process.pid != 0 || record->exit)) {
      record_ = *std::move(record);
      return true;
    }
    if (!has_children) return false;  // Nothing was started: the next launch finds the record void.
    if (!has_reaped) ::poll(nullptr, 0, 1);
  }
}

void Supervisor::TakeOver(const ProcessIdentity& supervisor) {
  if (!FindRecord(supervisor)) return;
  record_file_.Reset(::open(ToString(record_.job).c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (record_.exit) {  // The supervisor may have been killed before it reported.
    reports_.Report("exited");
    return reports_.Flush(WhenFull::kWait);
  }
  // Waits until the job's process executes its program: until then that process holds the lock.
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  while (record_file_.is_open() && ::fcntl(record_file_.get(), F_OFD_SETLKW, &lock) != 0 && errno == EINTR) {
  }
  if (!watch_.has_first_ended) watch_.first_process = static_cast<pid_t>(record_.process.pid);
  watch_.NoteFirst();
  if (watch_.first_process != 0 && !IsChild(watch_.first_process)) {
    // The job's process failed before it executed the program, and the supervisor that knew the reason is gone. The
    // record is emptied, so the launch may be repeated.
    static_cast<void>(!::ftruncate(record_file_.get(), 0));
    return;
  }
  record_.supervisor = station_.self;
  record_.guard = {};
  record_.control = station_.address;
  record_.commander = station_.setup.daemon_uid;
  while (!AdmitCommands(station_.control.get(), record_.secret)) ::poll(nullptr, 0, 100);
  RecordWriter lines;
  AddWatch(record_, lines);
  static_cast<void>(!::write(record_file_.get(), lines.text().data(), lines.text().size()));
  if (!record_.cgroup.empty()) cgroup_ = JobCgroup::Open(record_.cgroup);
  if (record_.has_gone && watch_.awaits_go) LetGo();
  // The supervisor may have been waiting for the report of the first process.
  if (watch_.awaits_go && record_.port == 0) watch_.look_at = MonotonicNow();
  if (!watch_.awaits_go) {
    if (watch_.counts_from == kNoTime) watch_.counts_from = record_.started;
    if (watch_.limit_at == kNeverDue) SetTimeLimit(watch_.time_limit);
  }
  if (record_.lease.is_set()) watch_.lease_look_at = MonotonicNow();
  Watch();
  Finish();
}

void RunSupervisor(int channel, SupervisorSetup setup) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::setpgid(0, 0);  // Signals to the launcher's process group must not reach us.
  // SIGCHLD gets a handler, so that it wakes ppoll(). Outside of ppoll() all signals stay blocked.
  struct sigaction action = {};
  action.sa_handler = IgnoreWake;
  action.sa_flags = SA_NOCLDSTOP;
  ::sigaction(SIGCHLD, &action, nullptr);

  Station station = {.setup = std::move(setup), .channel = channel, .watch = MakeSharedWatch()};
  if (station.watch == nullptr) ::_exit(1);
  const ProcessIdentity guard = IdentifyProcess(::getpid());
  const pid_t child = ::fork();
  if (child > 0) Guard(child, station);
  if (child == 0) {
    station.guard = guard;
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::setpgid(0, 0);
  }  // Without room for a guard the job runs without one.
  OpenControl(station);
  LaunchFrameReader reader(channel);
  while (true) {
    auto frame = reader.Next();
    if (!frame && !reader.ReadMore()) ::_exit(0);
    if (!frame) continue;
    auto request = DecodeLaunch(frame->body(), frame->streams);
    if (!request) ::_exit(1);  // The launcher tells the daemon that the launch was lost.
    const LaunchFrameHeader header = frame->header();
    // The user in the request must be the one in the header, because the launcher has checked only the header.
    if (request->uid != header.uid || request->gid != header.gid) ::_exit(1);
    for (ForeignDescriptor& stream : frame->streams) stream.Release();  // The request owns them now.
    Wipe(frame->bytes);
    Supervisor(*std::move(request), station).Run();
    if (station.guard.pid != 0 && ::getppid() != station.guard.pid) ::_exit(0);
    ::prctl(PR_SET_NAME, "divvy-idle");
  }
}

}  // namespace divvy
