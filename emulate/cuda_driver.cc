// The state of this process, the guard of all entry points, and cuInit.
#include "cuda_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cuda_current.h"
#include "platform/os/old_glibc.h"

__thread unsigned char divvy_cuda_per_thread = 0;

namespace divvy::cuda {

Driver driver = {.monitor = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

uint64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void SleepUntil(uint64_t nanoseconds) {
  const timespec until = {static_cast<time_t>(nanoseconds / 1'000'000'000),
                          static_cast<long>(nanoseconds % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

void WaitForChange() {
  ++driver.waiters;
  pthread_cond_wait(&driver.changed, &driver.monitor);
  --driver.waiters;
}

void AnnounceChange() {
  if (driver.waiters != 0) pthread_cond_broadcast(&driver.changed);
}

void WaitWhileLocked() {
  while (driver.state == kProcessLocked || driver.state == kProcessCheckpointed) WaitForChange();
}

Call::Call(Need need) {
  is_per_thread = divvy_cuda_per_thread != 0;
  divvy_cuda_per_thread = 0;
  pthread_mutex_lock(&driver.monitor);
  if (driver.is_forked) {
    error = kNotInitialized;
    return;
  }
  if (need == kNothingNeeded) return;
  if (!driver.is_ready) {
    error = kNotInitialized;
    return;
  }
  WaitWhileLocked();
  if (driver.state == kProcessFailed) {
    error = kUnknown;
    return;
  }
  if (need != kContext) return;
  context = CurrentContext();
  if (context == nullptr) {
    error = kInvalidContext;
  } else {
    error = context->sticky;
  }
}

Outside::~Outside() {
  pthread_mutex_lock(&driver.monitor);
  --driver.outside;
  AnnounceChange();
}

Call::~Call() { pthread_mutex_unlock(&driver.monitor); }

namespace {

// Parses sizes such as "64MiB", "1G" or "4096".
uint64_t Number(const char* text) {
  char* end = nullptr;
  uint64_t number = strtoull(text, &end, 0);
  switch (*end) {
    case 'k':
    case 'K':
      number <<= 10;
      break;
    case 'm':
    case 'M':
      number <<= 20;
      break;
    case 'g':
    case 'G':
      number <<= 30;
      break;
    default:
      break;
  }
  return number;
}

// Parses "oom-at=3,copy-rate=1G,sticky=700,refuse-checkpoint,refuse-restore".
void ReadFaults(const char* text) {
  Faults& faults = driver.faults;
  for (const char* at = text; at != nullptr && *at != '\0'; at = strchr(at, ',')) {
    if (*at == ',') ++at;
    if (strncmp(at, "oom-at=", 7) == 0) faults.out_of_memory_at = Number(at + 7);
    if (strncmp(at, "copy-rate=", 10) == 0) faults.copy_rate = Number(at + 10);
    if (strncmp(at, "sticky=", 7) == 0) faults.sticky_error = static_cast<unsigned>(Number(at + 7));
    if (strncmp(at, "refuse-checkpoint", 17) == 0) faults.refuse_checkpoint = true;
    if (strncmp(at, "refuse-restore", 14) == 0) faults.refuse_restore = true;
  }
}

void OnForkedChild() {
  if (!driver.is_ready) return;  // The child may initialise CUDA itself.
  driver.is_forked = true;
  // The monitor was locked by BeforeFork; in the child it starts unlocked.
  driver.monitor = PTHREAD_MUTEX_INITIALIZER;
}

void BeforeFork() { pthread_mutex_lock(&driver.monitor); }
void AfterFork() { pthread_mutex_unlock(&driver.monitor); }

Return Start() {
  const Return opened = OpenShared();
  if (opened != kSuccess) return opened;
  const char* folder = getenv("DIVVY_EMULATE_MEMORY");
  driver.arena = folder == nullptr ? old_glibc::MakeMemoryFile("divvy-gpu-memory", MFD_CLOEXEC)
                                   : open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (driver.arena < 0) return kOperatingSystem;
  driver.context_bytes = kContextBytes;
  if (const char* bytes = getenv("DIVVY_EMULATE_CUDA_CONTEXT")) driver.context_bytes = RoundUp(Number(bytes), kPage);
  ReadFaults(getenv("DIVVY_EMULATE_CUDA_FAULTS"));
  const Return served = StartService();
  if (served != kSuccess) return served;
  pthread_atfork(BeforeFork, AfterFork, OnForkedChild);
  driver.is_ready = true;
  return kSuccess;
}

}  // namespace

// At a normal exit the memory is freed at once. After a crash, other processes detect it when they need memory.
__attribute__((destructor)) static void OnUnload() {
  if (!driver.is_ready || driver.is_forked) return;
  for (unsigned i = 0; i < driver.gpu_count; ++i) LeaveGpu(driver.gpus[i]);
  emulation::LockShared(driver.file->lock);
  MySlot().pid = 0;
  emulation::UnlockShared(driver.file->lock);
}

Return cuInit(unsigned flags) {
  Call call(Call::kNothingNeeded);
  if (call.error != kSuccess) return call.error;
  if (flags != 0) return kInvalidValue;
  if (driver.is_ready) return kSuccess;
  return Start();
}

Return cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  *version = kDriverVersion;
  return kSuccess;
}

}  // namespace divvy::cuda
