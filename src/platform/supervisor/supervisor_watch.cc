#include "platform/supervisor/supervisor_watch.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace divvy {
namespace {

Duration CpuTime(const rusage& usage) {
  const auto duration = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return duration(usage.ru_utime) + duration(usage.ru_stime);
}

}  // namespace

Duration DueAfter(Duration now, Duration wait) {
  const Duration positive = std::max(wait, Duration(0));
  return kNeverDue - now < positive ? kNeverDue : now + positive;
}

bool SupervisorWatch::ReapOne(bool& has_children) {
  // Uses the system call instead of the library's waitid(), because only the system call returns the resource usage.
  has_children = ::syscall(SYS_waitid, P_ALL, 0, &reaped, WEXITED | WNOHANG, &reaped_usage) == 0;
  if (!has_children || reaped.si_pid == 0) return false;
  NoteFirst();
  cpu_time += CpuTime(reaped_usage);
  memory_peak_kib = std::max(memory_peak_kib, reaped_usage.ru_maxrss);
  return true;
}

void SupervisorWatch::NoteFirst() {
  if (first_process == 0 || reaped.si_pid != first_process) return;
  signal = reaped.si_code == CLD_EXITED ? 0 : reaped.si_status;
  code = signal != 0 ? 128 + signal : reaped.si_status;
  // The end is recorded after its values. If this process is killed in between, the guard that takes over finds no
  // incomplete end.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  has_first_ended = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  first_process = 0;
}

SupervisorWatch* MakeSharedWatch() {
  void* memory = ::mmap(nullptr, sizeof(SupervisorWatch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) SupervisorWatch();
}

}  // namespace divvy
