// The keeper's event loop: ready descriptors, timers and functions posted by other threads. One thread runs it and
// makes all calls; a callback must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "platform/os/unique_fd.h"

namespace divvy::keeper {

class EventLoop {
 public:
  using TimerId = std::pair<Time, std::uint64_t>;

  static Result<std::unique_ptr<EventLoop>> Make();

  /// Returns the time since 1970. It is monotonic, with nanosecond resolution.
  Time Now() const;

  /// Calls `ready` whenever the descriptor is readable, at end of file or in error, until Forget.
  void Watch(int fd, std::function<void()> ready);
  /// Ends Watch for this descriptor. Call this before closing it.
  void Forget(int fd);

  /// Calls `then` once at that time, or as soon as possible after it (typically within 60 us).
  TimerId At(Time when, std::function<void()> then);
  TimerId After(Duration wait, std::function<void()> then) { return At(Now() + wait, std::move(then)); }
  /// Cancels a timer of At. Has no effect if it has already fired.
  void Cancel(const TimerId& timer);

  /// Makes the loop's thread call `then` soon. Thread-safe.
  void Post(std::function<void()> then);

  /// Runs until Stop, including a Stop called before; it may be called again afterwards. `after_each` runs after each
  /// batch of ready events.
  void Run(const std::function<void()>& after_each = [] {});
  void Stop() { is_stopped_ = true; }

 private:
  EventLoop() = default;
  void SetAlarm();
  void FireTimers();
  void TakePosted();

  struct Watched {
    int fd = -1;
    std::function<void()> ready;
  };
  Duration wall_offset_{0};
  Descriptor epoll_;
  Descriptor alarm_;   // timerfd, because epoll_wait has millisecond resolution.
  Descriptor posted_;  // eventfd.
  std::unordered_map<std::uint64_t, std::shared_ptr<Watched>> watched_;
  std::unordered_map<int, std::uint64_t> by_fd_;
  std::uint64_t next_ = 1;
  std::map<TimerId, std::function<void()>> timers_;
  Time alarm_set_ = kNever;
  bool is_stopped_ = false;
  std::mutex mutex_;
  std::vector<std::function<void()>> handed_over_;  // Guarded by mutex_.
};

}  // namespace divvy::keeper
