// Checkpoints that one process requests of another, or of itself. Each process has a thread that waits for orders in
// the shared file, where the caller writes them. The memory stays in its backing pages, which are host memory anyway.
// It no longer counts for the GPU, and nothing can access it.
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cuda_driver.h"
#include "platform/os/old_glibc.h"
#include "process_alive.h"

namespace divvy::cuda {

using emulation::CudaOrder;
using emulation::CudaProcess;
using emulation::kMaxGpus;

namespace {

uint64_t saved_memory[kMaxGpus];  // Indexed by ordinal.
uint64_t saved_residual[kMaxGpus];

void Wake(uint32_t& word) { syscall(SYS_futex, &word, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0); }

void Wait(uint32_t& word, uint32_t seen, long milliseconds) {
  const timespec most = {milliseconds / 1000, milliseconds % 1000 * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, milliseconds == 0 ? nullptr : &most, nullptr, 0);
}

void SetState(unsigned state) {
  driver.state = state;
  __atomic_store_n(&MySlot().state, state, __ATOMIC_RELEASE);
  AnnounceChange();
}

bool IsQuiet() {
  if (driver.outside != 0) return false;
  for (const OpaqueContext* context : driver.contexts) {
    if (context->is_busy) return false;
    for (const OpaqueStream* stream : context->streams) {
      if (stream->first != nullptr) return false;
    }
  }
  return true;
}

Return LockSelf(unsigned timeout_ms) {
  if (driver.state != kProcessRunning) return kIllegalState;
  // New calls wait from here on. The caller gets the answer when all earlier calls have finished.
  driver.state = kProcessLocked;
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += timeout_ms / 1000;
  until.tv_nsec += timeout_ms % 1000 * 1'000'000L;
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_nsec -= 1'000'000'000;
    ++until.tv_sec;
  }
  while (!IsQuiet()) {
    ++driver.waiters;
    const int error = timeout_ms == 0 ? pthread_cond_wait(&driver.changed, &driver.monitor)
                                      : pthread_cond_timedwait(&driver.changed, &driver.monitor, &until);
    --driver.waiters;
    if (error != ETIMEDOUT || IsQuiet()) continue;
    SetState(kProcessRunning);
    return kNotReady;
  }
  SetState(kProcessLocked);
  return kSuccess;
}

void HideMemory(bool is_hidden) {
  for (const Range* range : driver.ranges) ProtectRange(range, is_hidden);
}

bool IsUnmovable() {
  for (const OpaqueContext* context : driver.contexts) {
    if (context->peers.count != 0) return true;
  }
  return MySlot().is_unmovable != 0;
}

Return SaveSelf() {
  if (driver.state != kProcessLocked) return kIllegalState;
  if (IsUnmovable()) return kNotSupported;
  for (unsigned i = 0; i < driver.gpu_count; ++i) {
    if (FaultsOf(static_cast<Device>(i)).refuse_checkpoint) return kNotSupported;
  }
  uint64_t saved = 0;
  for (unsigned i = 0; i < driver.gpu_count; ++i) {
    const auto device = static_cast<Device>(i);
    saved_memory[i] = MyUse(device).memory;
    saved_residual[i] = MyUse(device).residual;
    PayCopy(device, saved_memory[i]);
    saved += saved_memory[i];
  }
  HideMemory(true);
  emulation::LockShared(driver.file->lock);
  for (unsigned i = 0; i < driver.gpu_count; ++i) {
    MyUse(static_cast<Device>(i)).memory = 0;
    MyUse(static_cast<Device>(i)).residual = 0;
  }
  MySlot().saved = saved;
  emulation::UnlockShared(driver.file->lock);
  SetState(kProcessCheckpointed);
  return kSuccess;
}

// Reads the GPU map. It must contain each GPU of the machine once, and once as a target of the same kind. Real drivers
// refuse partial maps, even if a process sees only those GPUs.
Return ReadMap(const CudaOrder& order, unsigned* map) {
  const unsigned count = driver.world->gpu_count;
  for (unsigned i = 0; i < kMaxGpus; ++i) map[i] = i;
  if (order.pair_count == 0) return kSuccess;
  if (order.pair_count != count) return kInvalidValue;
  bool is_from[kMaxGpus] = {};
  bool is_to[kMaxGpus] = {};
  for (unsigned i = 0; i < count; ++i) {
    const unsigned from = order.from[i];
    const unsigned to = order.to[i];
    if (from >= count || to >= count || is_from[from] || is_to[to]) return kInvalidValue;
    if (strcmp(driver.world->gpus[from].facts.name, driver.world->gpus[to].facts.name) != 0) return kInvalidValue;
    is_from[from] = is_to[to] = true;
    map[from] = to;
  }
  return kSuccess;
}

void GiveBack(unsigned until) {
  for (unsigned i = 0; i < until; ++i) {
    GiveMemory(static_cast<Device>(i), saved_memory[i], false);
    GiveMemory(static_cast<Device>(i), saved_residual[i], true);
  }
}

Return RestoreSelf(const CudaOrder& order) {
  if (driver.state != kProcessCheckpointed) return kIllegalState;
  unsigned map[kMaxGpus];
  const Return read = ReadMap(order, map);
  if (read != kSuccess) return read;
  unsigned before[kMaxGpus];
  memcpy(before, driver.gpus, sizeof(before));
  for (unsigned i = 0; i < driver.gpu_count; ++i) driver.gpus[i] = map[before[i]];
  Return error = kSuccess;
  for (unsigned i = 0; i < driver.gpu_count && error == kSuccess; ++i) {
    const auto device = static_cast<Device>(i);
    if (FaultsOf(device).refuse_restore) error = kUnknown;
    if (error == kSuccess && saved_memory[i] != 0) error = TakeMemory(device, saved_memory[i], false);
    if (error == kSuccess && saved_residual[i] != 0) {
      error = TakeMemory(device, saved_residual[i], true);
      if (error != kSuccess) GiveMemory(device, saved_memory[i], false);
    }
    if (error != kSuccess) GiveBack(i);
  }
  if (error != kSuccess) {
    memcpy(driver.gpus, before, sizeof(before));  // The process stays checkpointed, so another attempt may succeed.
    return error;
  }
  for (unsigned i = 0; i < driver.gpu_count; ++i) PayCopy(static_cast<Device>(i), saved_memory[i]);
  MySlot().saved = 0;
  HideMemory(false);
  SetState(kProcessLocked);
  return kSuccess;
}

Return UnlockSelf() {
  if (driver.state != kProcessLocked) return kIllegalState;
  SetState(kProcessRunning);
  return kSuccess;
}

Return Obey(const CudaOrder& order) {
  switch (order.action) {
    case emulation::kLockProcess:
      return LockSelf(order.timeout_ms);
    case emulation::kSaveProcess:
      return SaveSelf();
    case emulation::kRestoreProcess:
      return RestoreSelf(order);
    case emulation::kUnlockProcess:
      return UnlockSelf();
    default:
      return kInvalidValue;
  }
}

void* Serve(void*) {
  uint32_t& own = MySlot().service_thread;
  __atomic_store_n(&own, static_cast<uint32_t>(syscall(SYS_gettid)), __ATOMIC_RELEASE);
  Wake(own);
  CudaOrder& order = MySlot().order;
  for (;;) {
    const uint32_t asked = __atomic_load_n(&order.asked, __ATOMIC_ACQUIRE);
    if (asked == __atomic_load_n(&order.answered, __ATOMIC_ACQUIRE)) {
      Wait(order.asked, asked, 0);
      continue;
    }
    pthread_mutex_lock(&driver.monitor);
    order.result = Obey(order);
    pthread_mutex_unlock(&driver.monitor);
    __atomic_store_n(&order.answered, asked, __ATOMIC_RELEASE);
    Wake(order.answered);
  }
}

CudaProcess* ProcessOf(int pid) {
  for (CudaProcess& process : driver.file->processes) {
    if (pid > 0 && process.pid == static_cast<uint32_t>(pid) && emulation::IsUsingCuda(process)) {
      return &process;
    }
  }
  return nullptr;
}

bool IsReady() {
  pthread_mutex_lock(&driver.monitor);
  const bool is_ready = driver.is_ready && !driver.is_forked;
  pthread_mutex_unlock(&driver.monitor);
  return is_ready;
}

// Returns the index in the world, or kMaxGpus.
unsigned GpuOf(const Uuid& uuid) {
  for (unsigned i = 0; i < driver.world->gpu_count; ++i) {
    unsigned digits = 0;
    bool is_same = true;
    for (const char* at = driver.world->gpus[i].facts.uuid + 4; *at != '\0' && digits < 32; ++at) {
      if (*at == '-') continue;
      const int digit = *at <= '9' ? *at - '0' : (*at | 0x20) - 'a' + 10;
      const int its = uuid.bytes[digits / 2] >> (digits % 2 == 0 ? 4 : 0) & 15;
      is_same = is_same && its == digit;
      ++digits;
    }
    if (is_same && digits == 32) return i;
  }
  return kMaxGpus;
}

// A user may act on own processes, root on all.
bool MayAsk(int pid) {
  char path[32];
  snprintf(path, sizeof(path), "/proc/%d", pid);
  struct stat about;
  return geteuid() == 0 || (old_glibc::Stat(path, &about) == 0 && about.st_uid == geteuid());
}

// Waits until this order is answered. Returns false if the process has ended.
bool WaitForAnswer(const CudaProcess& process, CudaOrder& order, uint32_t number) {
  for (;;) {
    const uint32_t answered = __atomic_load_n(&order.answered, __ATOMIC_ACQUIRE);
    if (answered == number) return true;
    Wait(order.answered, answered, 100);
    if (!emulation::IsUsingCuda(process)) return false;
  }
}

Return Ask(int pid, uint32_t action, unsigned timeout_ms, const CheckpointRestore* restore) {
  if (!IsReady()) return kNotInitialized;
  CudaProcess* process = ProcessOf(pid);
  if (process == nullptr) return kInvalidValue;
  if (!MayAsk(pid)) return kNotPermitted;
  CudaOrder& order = process->order;
  emulation::LockShared(order.lock);
  // An earlier caller may have died while waiting; its order completes first.
  if (!WaitForAnswer(*process, order, __atomic_load_n(&order.asked, __ATOMIC_ACQUIRE))) {
    emulation::UnlockShared(order.lock);
    return kInvalidValue;
  }
  order.action = action;
  order.timeout_ms = timeout_ms;
  order.pair_count = 0;
  Return result = kSuccess;
  if (restore != nullptr && restore->pair_count != 0) {
    if (restore->pair_count > kMaxGpus || restore->pairs == nullptr) result = kInvalidValue;
    for (unsigned i = 0; result == kSuccess && i < restore->pair_count; ++i) {
      order.from[i] = static_cast<uint8_t>(GpuOf(restore->pairs[i].from));
      order.to[i] = static_cast<uint8_t>(GpuOf(restore->pairs[i].to));
    }
    order.pair_count = restore->pair_count;
  }
  if (result == kSuccess) {
    const uint32_t number = __atomic_add_fetch(&order.asked, 1, __ATOMIC_RELEASE);
    Wake(order.asked);
    result = WaitForAnswer(*process, order, number) ? static_cast<Return>(order.result) : kInvalidValue;
  }
  emulation::UnlockShared(order.lock);
  return result;
}

}  // namespace

Return StartService() {
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  const int failed = pthread_create(&thread, nullptr, Serve, nullptr);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (failed != 0) return kOperatingSystem;
  pthread_detach(thread);
  // This thread shows other processes whether the process still uses CUDA.
  uint32_t& told = MySlot().service_thread;
  while (__atomic_load_n(&told, __ATOMIC_ACQUIRE) == 0) Wait(told, 0, 100);
  return kSuccess;
}

Return cuCheckpointProcessGetState(int pid, ProcessState* state) {
  if (!IsReady()) return kNotInitialized;
  const CudaProcess* process = ProcessOf(pid);
  if (state == nullptr || process == nullptr) return kInvalidValue;
  *state = static_cast<ProcessState>(__atomic_load_n(&process->state, __ATOMIC_ACQUIRE));
  return kSuccess;
}

Return cuCheckpointProcessGetRestoreThreadId(int pid, int* thread) {
  if (!IsReady()) return kNotInitialized;
  const CudaProcess* process = ProcessOf(pid);
  if (thread == nullptr || process == nullptr) return kInvalidValue;
  *thread = static_cast<int>(process->service_thread);
  return kSuccess;
}

Return cuCheckpointProcessLock(int pid, CheckpointLock* options) {
  return Ask(pid, emulation::kLockProcess, options == nullptr ? 0 : options->timeout_ms, nullptr);
}
Return cuCheckpointProcessCheckpoint(int pid, CheckpointSave*) { return Ask(pid, emulation::kSaveProcess, 0, nullptr); }
Return cuCheckpointProcessRestore(int pid, CheckpointRestore* options) {
  return Ask(pid, emulation::kRestoreProcess, 0, options);
}
Return cuCheckpointProcessUnlock(int pid, CheckpointUnlock*) { return Ask(pid, emulation::kUnlockProcess, 0, nullptr); }

}  // namespace divvy::cuda
