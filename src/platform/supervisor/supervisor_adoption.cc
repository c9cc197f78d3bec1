#include "platform/supervisor/supervisor_adoption.h"

#include <linux/ioctl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "platform/os/process_tree.h"

namespace divvy {
namespace {

// Declared here because Debian 12's kernel headers are older (linux/pidfd.h of Linux 6.15: the first size of the
// struct, which every later kernel accepts).
struct PidfdState {
  std::uint64_t mask = 0;
  std::uint64_t cgroup_id = 0;
  std::uint32_t pids[3] = {};
  std::uint32_t credentials[8] = {};
  std::int32_t exit_code = 0;  // As returned by waitpid().
};
static_assert(sizeof(PidfdState) == 64);
constexpr unsigned long kPidfdGetState = _IOWR(0xFF, 11, PidfdState);
constexpr std::uint64_t kPidfdExit = 1U << 3;

/// Whether this process may inspect another one (ptrace access for reading). The kernel checks the same for the link
/// to the program, which a process that has ended no longer has.
bool MayInspect(std::int64_t pid) {
  char first = 0;
  return ::readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), &first, 1) >= 0 || errno != EACCES;
}

}  // namespace

Exit ExitOfWaitStatus(int status) {
  Exit exit;
  if (WIFSIGNALED(status)) exit.signal = WTERMSIG(status);
  exit.code = exit.signal != 0 ? 128 + exit.signal : WEXITSTATUS(status);
  return exit;
}

Result<AdoptedProcess> AdoptedProcess::Open(const ProcessIdentity& process) {
  const std::string pid = std::to_string(process.pid);
  Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process.pid), 0)));
  if (!pidfd.is_open() && errno != ESRCH) {
    return Internal("cannot watch process " + pid + ": " + std::strerror(errno));
  }
  // Checked after opening: the pid may have belonged to another process at that time, and cannot be reused while we
  // hold it.
  if (!pidfd.is_open() || !IsAlive(process)) return NotFound("process " + pid + " has ended");
  return AdoptedProcess(process, std::move(pidfd));
}

std::optional<Exit> AdoptedProcess::PollExit() const {
  pollfd polled = {.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&polled, 1, 0) <= 0) return std::nullopt;
  // The process has ended. Until its new parent reaps it, /proc shows the exit code; afterwards the pidfd does, on a
  // newer kernel. To a caller that may not inspect the process, /proc shows 0 whatever the code is.
  const bool may_inspect = MayInspect(process_.pid);
  const auto stat = ReadProcessStat(static_cast<pid_t>(process_.pid));
  if (may_inspect && stat && stat->start_ticks == process_.start_ticks && stat->state == 'Z')
    return ExitOfWaitStatus(stat->exit_status);
  PidfdState state;
  state.mask = kPidfdExit;
  if (::ioctl(pidfd_.get(), kPidfdGetState, &state) == 0 && (state.mask & kPidfdExit) != 0) {
    return ExitOfWaitStatus(state.exit_code);
  }
  Exit unknown;
  unknown.is_known = false;
  return unknown;
}

int AdoptedProcess::SignalTree(int signal) const { return SignalOrphans(static_cast<pid_t>(process_.pid), signal); }

void AdoptedProcess::Signal(int signal) const { ::syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0); }

}  // namespace divvy
