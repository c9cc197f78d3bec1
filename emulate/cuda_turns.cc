// Time slicing of a GPU between processes: turns of about two milliseconds, in order, among the processes with work,
// similar to a real driver.
//
// Time is computed, not measured. Work of duration d starts when the GPU is free or when the work became ready,
// whichever is later, and ends d later. A thread sleeps only while that end is well ahead of the clock. So a late
// wake-up costs nothing, and thousands of kernels of a few microseconds take exactly their sum.
//
// The holder of the turn is one word under a robust lock. Waiting processes skip a holder that makes no progress
// (killed, stopped or starved); it notices that when it continues.
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cuda_driver.h"

namespace divvy::cuda {

using emulation::CudaGpu;
using emulation::CudaUse;
using emulation::kMaxCudaProcesses;
using emulation::LockShared;
using emulation::UnlockShared;

namespace {

constexpr uint64_t kTurnNs = 2'000'000;
// Shorter sleeps are not worthwhile, because a sleep's resolution is about 60 us.
constexpr uint64_t kAheadNs = 100'000;
constexpr uint64_t kPatienceNs = 25'000'000;  // Waiting time for a holder that makes no progress.

void Wake(uint32_t& word) {
  __atomic_add_fetch(&word, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &word, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

void Wait(uint32_t& word, uint32_t seen, uint64_t nanoseconds) {
  const timespec most = {static_cast<time_t>(nanoseconds / 1'000'000'000),
                         static_cast<long>(nanoseconds % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &most, nullptr, 0);
}

CudaUse& UseOf(unsigned slot, unsigned gpu) { return driver.file->processes[slot].uses[gpu]; }

// Returns the next slot after `slot` that has work, or kMaxCudaProcesses. Requires the GPU's lock, like all functions
// below.
unsigned NextAfter(unsigned slot, unsigned gpu) {
  for (unsigned i = 1; i <= kMaxCudaProcesses; ++i) {
    const unsigned next = (slot + i) % kMaxCudaProcesses;
    if (driver.file->processes[next].pid != 0 && UseOf(next, gpu).wants != 0) return next;
  }
  return kMaxCudaProcesses;
}

void Give(CudaGpu& state, unsigned gpu, unsigned slot) {
  state.holder = slot == kMaxCudaProcesses ? 0 : slot + 1;
  ++state.turn;
  state.used_ns = 0;
  state.progress_ns = Now();
  if (state.holder != 0 && slot != driver.slot) Wake(UseOf(slot, gpu).wake);
}

void CountBusy(CudaGpu& state, CudaUse& use, uint64_t end, uint64_t nanoseconds) {
  state.busy_ns += nanoseconds;
  use.busy_ns += nanoseconds;
  const uint64_t number = end / emulation::kBusyBucketNs;
  auto& bucket = state.buckets[number % emulation::kBusyBuckets];
  if (bucket.number != number) {
    bucket.number = number;
    bucket.busy_ns = 0;
  }
  bucket.busy_ns += nanoseconds;
}

// Takes the turn if possible. Returns true if this process holds it.
bool HasTurn(CudaGpu& state, unsigned gpu) {
  if (state.holder == driver.slot + 1) return true;
  const uint64_t now = Now();
  const uint64_t shown = state.progress_ns > state.free_at_ns ? state.progress_ns : state.free_at_ns;
  if (state.holder != 0 && now > shown + kPatienceNs) {
    UseOf(state.holder - 1, gpu).wants = 0;  // A live process sets it again.
    Give(state, gpu, NextAfter(state.holder - 1, gpu));
  } else if (state.holder == 0) {
    Give(state, gpu, driver.slot);
  }
  return state.holder == driver.slot + 1;
}

}  // namespace

uint64_t UseGpu(unsigned gpu, uint64_t ready_ns, uint64_t duration) {
  CudaGpu& state = driver.file->gpus[gpu];
  CudaUse& use = UseOf(driver.slot, gpu);
  uint64_t left = duration;
  uint64_t end = ready_ns;
  LockShared(state.lock);
  while (left > 0) {
    use.wants = 1;
    if (!HasTurn(state, gpu)) {
      const uint32_t seen = __atomic_load_n(&use.wake, __ATOMIC_ACQUIRE);
      UnlockShared(state.lock);
      Wait(use.wake, seen, kPatienceNs);
      LockShared(state.lock);
      continue;
    }
    if (state.used_ns >= kTurnNs) {
      const unsigned next = NextAfter(driver.slot, gpu);
      Give(state, gpu, next);
      if (next != driver.slot) continue;
    }
    const uint64_t start = state.free_at_ns > end ? state.free_at_ns : end;
    const uint64_t piece = left < kTurnNs - state.used_ns ? left : kTurnNs - state.used_ns;
    end = start + piece;
    left -= piece;
    state.free_at_ns = end;
    state.used_ns += piece;
    state.progress_ns = Now();
    CountBusy(state, use, end, piece);
    if (end <= state.progress_ns + kAheadNs) continue;
    UnlockShared(state.lock);
    SleepUntil(end);
    LockShared(state.lock);
  }
  UnlockShared(state.lock);
  return end;
}

void LeaveGpu(unsigned gpu) {
  CudaGpu& state = driver.file->gpus[gpu];
  LockShared(state.lock);
  UseOf(driver.slot, gpu).wants = 0;
  if (state.holder == driver.slot + 1) Give(state, gpu, NextAfter(driver.slot, gpu));
  UnlockShared(state.lock);
}

}  // namespace divvy::cuda
