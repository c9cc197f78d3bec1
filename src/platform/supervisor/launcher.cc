// The launcher: a small process with one thread that passes each launch to an idle supervisor or a new one. It stays
// small because a fork copies its memory.
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "platform/isolation/job_mounts.h"
#include "platform/net/tls.h"
#include "platform/os/process_tree.h"
#include "platform/os/unix_socket.h"
#include "platform/supervisor/launch_message.h"
#include "platform/supervisor/launcher.h"
#include "platform/supervisor/supervisor.h"

namespace divvy {
namespace {

// The most idle supervisors that are kept: enough for consecutive jobs on the GPUs of one server. Their memory is
// mostly shared.
constexpr std::size_t kMaxIdle = 16;
constexpr int kIdleKeepMs = 5000;

/// Set in a launcher that serves a daemon with fewer rights.
struct Rules {
  ErrandSetup setup;
  RightChecker checker;
};

class LauncherLoop {
 public:
  LauncherLoop(int socket, SupervisorSetup setup, std::optional<Rules> rules)
      : socket_(socket),
        events_(::epoll_create1(EPOLL_CLOEXEC)),
        reader_(socket),
        rules_(std::move(rules)),
        setup_(std::move(setup)) {
    Watch(socket_);
    if (rules_) Enter();
  }

  int Run() {
    while (true) {
      epoll_event ready[64];
      const int count = ::epoll_wait(events_.get(), ready, 64, idle_.empty() ? -1 : kIdleKeepMs);
      if (count == 0) LetGo(idle_.size());
      bool has_frames = false;
      // Handles supervisors first, so that the frames find those that have just become idle.
      for (int i = 0; i < count; ++i) {
        if (ready[i].data.fd == socket_) has_frames = true;
        else OnSupervisor(ready[i].data.fd);
      }
      if (!has_frames) continue;
      if (!reader_.ReadMore()) return 0;
      while (auto frame = reader_.Next()) {
        OnFrame(*frame);
        Wipe(frame->bytes);
      }
    }
  }

 private:
  static constexpr std::int64_t kSeveral = -2;  // Not a valid uid.

  struct Made {
    Descriptor channel;
    std::optional<std::int64_t> uid;  // The user of all jobs that it has run; kSeveral: more than one user.
    bool is_prepared = false;
  };

  void Watch(int fd) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event);
  }

  void OnSupervisor(int channel) {
    char bytes[16];
    if (::recv(channel, bytes, sizeof bytes, MSG_DONTWAIT) <= 0) {
      // The supervisor was killed. If it had begun its job, the run record shows the job's state.
      if (const auto had = passed_.find(channel); had != passed_.end()) Return(had->second);
      Forget(channel);
      return;
    }
    passed_.erase(channel);
    idle_.push_back(channel);
    if (idle_.size() > kMaxIdle) LetGo(1);
  }

  void OnFrame(const LaunchFrame& frame) {
    if (setup_.run_directory.empty()) return Greet(frame.body());
    const LaunchFrameHeader header = frame.header();
    if (header.is_removal == 1) return RemoveRecord(JobId(header.job), header.attempt);
    if (rules_ && !IsAllowed(header)) return Return(header.sequence | kRefusedLaunch);
    // Prefers the idle supervisor that was busy last: its memory is in the caches.
    for (std::size_t at = idle_.size(); at-- > 0;) {
      const int channel = idle_[at];
      if (header.is_part && !IsFitForPart(supervisors_[channel], header.uid)) continue;
      idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(at));
      if (Pass(channel, frame)) return;
      Forget(channel);
    }
    if (header.is_part && !std::exchange(is_prepared_, true)) TlsContext::PrepareForKeys();
    while (!Pass(MakeSupervisor(), frame)) {
    }
  }

  bool IsAllowed(const LaunchFrameHeader& header) {
    return CheckUid(header.uid, rules_->setup.lowest_uid, rules_->setup.runs_root_jobs).has_value() &&
           (rules_->checker.IsGood(header.uid, header.gid, header.right) ||
            rules_->checker.IsGoodByName(header.uid, header.gid, header.right));
  }

  // Runs in the order of the launches: a later launch of the same job creates its record after this.
  void RemoveRecord(JobId job, std::uint32_t attempt) {
    const auto record = ReadRunRecord(setup_.run_directory, job);
    if (!record || record->attempt > attempt) return;
    // A supervisor that has recorded and reported its job's end holds its record for another moment.
    if (record->is_supervisor_alive && !record->exit) return;
    RemoveRunRecord(setup_.run_directory, *record);
    if (!record->own_tmp.empty()) RemoveTmps();
  }

  // Removes old /tmp folders of jobs in a child process, because they may hold any number of files.
  static void RemoveTmps() {
    if (::fork() != 0) return;
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    RemoveOldTmps();
    ::_exit(0);
  }

  /// The first process of a node allocation is a fork of the supervisor that continues as its user. So the supervisor
  /// must have run jobs of that user only.
  static bool IsFitForPart(const Made& supervisor, std::int64_t uid) {
    return supervisor.is_prepared && supervisor.uid == uid;
  }

  bool Pass(int channel, const LaunchFrame& frame) {
    const LaunchFrameHeader header = frame.header();
    Made& made = supervisors_[channel];
    if (!made.uid) made.uid = header.uid;
    else if (*made.uid != header.uid) made.uid = kSeveral;
    passed_[channel] = header.sequence;
    return SendFrame(channel, frame);
  }

  // Tells the daemon that no process has this launch any more. If the daemon's socket is full, the message is dropped:
  // it has older ones to read.
  void Return(std::uint64_t sequence) { ::send(socket_, &sequence, sizeof sequence, MSG_NOSIGNAL | MSG_DONTWAIT); }

  void Greet(std::string_view run_directory) {
    if (run_directory.empty() || run_directory.front() != '/') ::_exit(1);
    setup_.run_directory = run_directory;
    Enter();
  }

  void Enter() {
    setup_.launcher = IdentifyProcess(::getpid());
    setup_.launcher_pidfd = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    setup_.cgroups = CgroupRoots::Find();
    if (::chdir(setup_.run_directory.c_str()) != 0) ::_exit(1);
    RemoveTmps();
  }

  int MakeSupervisor() {
    // If the system is out of processes, files or memory, the launcher tries again: the daemon relies on the launch.
    for (int wait_ms = 1;; wait_ms = std::min(2 * wait_ms, 1000)) {
      int ends[2] = {-1, -1};
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        const pid_t pid = ::fork();
        if (pid == 0) BecomeSupervisor(ends[1]);
        ::close(ends[1]);
        if (pid > 0) {
          supervisors_[ends[0]] = {.channel = Descriptor(ends[0]), .uid = std::nullopt, .is_prepared = is_prepared_};
          Watch(ends[0]);
          return ends[0];
        }
        ::close(ends[0]);
      }
      ::usleep(static_cast<useconds_t>(wait_ms) * 1000);
    }
  }

  [[noreturn]] void BecomeSupervisor(int channel) {
    reader_.Forget();
    // The new supervisor must not keep the launcher's descriptors open: the daemon's socket, the lock, and the channels
    // and streams of other supervisors.
    ::dup3(channel, 3, O_CLOEXEC);
    const bool has_pidfd = setup_.launcher_pidfd >= 0 && ::dup3(setup_.launcher_pidfd, 4, O_CLOEXEC) == 4;
    setup_.launcher_pidfd = has_pidfd ? 4 : -1;
    ::syscall(SYS_close_range, has_pidfd ? 5U : 4U, ~0U, 0U);
    RunSupervisor(3, std::move(setup_));
  }

  void LetGo(std::size_t count) {
    for (; count > 0; --count) {
      Forget(idle_.front());
    }
  }

  // Closes the channel; an idle supervisor exits then.
  void Forget(int channel) {
    std::erase(idle_, channel);
    passed_.erase(channel);
    supervisors_.erase(channel);
  }

  int socket_;
  Descriptor events_;
  LaunchFrameReader reader_;
  std::map<int, Made> supervisors_;      // By number of the channel.
  std::vector<int> idle_;                // Channels of supervisors without a job; the most recently idle one is last.
  std::map<int, std::uint64_t> passed_;  // Sequence numbers of the launches that supervisors have, by channel.
  bool is_prepared_ = false;             // TlsContext::PrepareForKeys() was called, for gangs.
  std::optional<Rules> rules_;
  SupervisorSetup setup_;
};

void TakeNullStreams() {
  const int null = ::open("/dev/null", O_RDWR);
  for (int target = 0; target < 3; ++target) ::dup2(null, target);
  if (null > 2) ::close(null);
}

}  // namespace

void TakeLauncherSignals() {
  // Uses the system call, because the library reserves two signals that the daemon's parent may also have ignored.
  const std::array<std::uint64_t, 4> standard = {};
  for (int signal = 1; signal < NSIG; ++signal) {
    ::syscall(SYS_rt_sigaction, signal, standard.data(), nullptr, sizeof(std::uint64_t));
  }
  // The kernel reaps children if SIGCHLD is ignored.
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  for (const int signal : {SIGCHLD, SIGPIPE}) ::sigaction(signal, &action, nullptr);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
}

int LauncherMain(int socket_fd, AllocationEntry allocation_main) {
  ::prctl(PR_SET_NAME, "divvy-launcher");
  ::setsid();  // A Ctrl-C at the daemon's terminal must not reach the launcher.
  TakeNullStreams();
  // Keeps the socket and the lock, whose descriptor has the next number. Closes all others, which were inherited from
  // the daemon.
  ::syscall(SYS_close_range, static_cast<unsigned>(socket_fd) + 2, ~0U, 0U);
  for (const int fd : {socket_fd, socket_fd + 1}) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  TakeLauncherSignals();
  SupervisorSetup setup;
  setup.allocation_main = std::move(allocation_main);
  return LauncherLoop(socket_fd, std::move(setup), std::nullopt).Run();
}

int ServeLaunches(int socket, int reports, const ErrandSetup& errands, RightChecker checker,
                  AllocationEntry allocation_main) {
  ::prctl(PR_SET_NAME, "divvy-launches");
  const auto lock = AwaitLauncherLock(errands.run_directory);
  const std::int64_t pid = ::getpid();
  const std::string_view own_pid(reinterpret_cast<const char*>(&pid), sizeof pid);
  const std::string greeting = std::string(1, '\0') + (lock ? std::string(own_pid) : lock.error().message);
  const ssize_t sent = SendWithDescriptors(socket, greeting, std::span(&reports, lock ? 1U : 0U), 0);
  if (!lock || sent != static_cast<ssize_t>(greeting.size())) return 1;
  ::close(reports);
  NameLauncher(lock->get(), ::getpid());
  SupervisorSetup setup;
  setup.run_directory = errands.run_directory;
  setup.daemon_uid = errands.daemon_uid;
  setup.daemon_gid = errands.daemon_gid;
  setup.allocation_main = std::move(allocation_main);
  return LauncherLoop(socket, std::move(setup), Rules{errands, std::move(checker)}).Run();
}

}  // namespace divvy
