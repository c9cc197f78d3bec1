// The keeper's one loop: descriptors that become ready, moments that come, and what other threads hand over. One thread
// runs it and calls everything; nothing that it calls may block.
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
#include "platform/os/launch_descriptor.h"

namespace divvy::keeper {

class EventLoop {
 public:
  using TimerId = std::pair<Time, std::uint64_t>;

  static Result<std::unique_ptr<EventLoop>> Make();

  /// Time since 1970 that goes on monotonically, to the nanosecond.
  Time Now() const;

  /// Calls `ready` whenever the descriptor can be read (or has an end or an error), until Forget.
  void Watch(int fd, std::function<void()> ready);
  /// To be called before the descriptor is closed.
  void Forget(int fd);

  /// Calls `then` once at that time or as soon after it as can be (about 60 us).
  TimerId At(Time when, std::function<void()> then);
  TimerId After(Duration wait, std::function<void()> then) { return At(Now() + wait, std::move(then)); }
  /// Harmless for one that has gone off.
  void Cancel(const TimerId& timer);

  /// From any thread: `then` is called by the loop's.
  void Post(std::function<void()> then);

  /// Until Stop, also one of before; then it may be called again. `after_each`: after everything that was ready at
  /// once.
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
  Descriptor alarm_;   // timerfd: epoll_wait alone counts milliseconds.
  Descriptor posted_;  // eventfd.
  std::unordered_map<std::uint64_t, std::shared_ptr<Watched>> watched_;
  std::unordered_map<int, std::uint64_t> by_fd_;
  std::uint64_t next_ = 1;
  std::map<TimerId, std::function<void()>> timers_;
  Time alarm_set_ = kNever;
  bool is_stopped_ = false;
  std::mutex mutex_;
  std::vector<std::function<void()>> handed_over_;  // Under mutex_.
};

}  // namespace divvy::keeper
