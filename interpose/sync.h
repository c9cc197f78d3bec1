// Locks, waits and clocks that need only libc and the kernel.
#pragma once

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace divvy::interpose {

class Mutex {
 public:
  constexpr Mutex() = default;
  void Lock() { pthread_mutex_lock(&mutex_); }
  void Unlock() { pthread_mutex_unlock(&mutex_); }
  /// Makes the mutex unlocked. Call this in the child of a fork, where a thread that held it does not exist.
  void Renew() { mutex_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// Delays a cancellation of this thread (pthread_cancel) to the end of a scope. Destructors do not run when a thread is
/// cancelled, so a lock would stay locked.
class Uncancelled {
 public:
  Uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

class Locked {
 public:
  explicit Locked(Mutex& mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~Locked() { mutex_.Unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  const Uncancelled uncancelled_;
  Mutex& mutex_;
};

/// Blocks all signals of this thread for a scope, so that no handler of the program runs on it.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// Starts a detached thread of this library that handles no signals. Returns false on failure.
inline bool StartOwnThread(void* (*run)(void*), void* argument) {
  const SignalsBlocked quiet;  // The thread inherits it.
  pthread_t thread;
  if (pthread_create(&thread, nullptr, run, argument) != 0) return false;
  pthread_detach(thread);
  return true;
}

inline std::uint64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

inline constexpr std::uint64_t kMillisecond = 1'000'000;
inline constexpr std::uint64_t kSecond = 1'000'000'000;

/// Waits while `*word` equals `value`, for at most `most_ns` nanoseconds. Other processes may map the word too, so the
/// futex is not a private one.
inline void FutexWait(std::uint32_t* word, std::uint32_t value, std::uint64_t most_ns) {
  const timespec timeout = {static_cast<time_t>(most_ns / kSecond), static_cast<long>(most_ns % kSecond)};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

inline void FutexWakeAll(std::uint32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace divvy::interpose
