#include "keeper/drivers/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace divvy::keeper {
namespace {

Duration Clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec);
}

void Drain(int fd) {
  std::uint64_t count = 0;
  while (::read(fd, &count, sizeof count) > 0) {
  }
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::Make() {
  std::unique_ptr<EventLoop> loop(new EventLoop);
  loop->wall_offset_ = Clock(CLOCK_REALTIME) - Clock(CLOCK_MONOTONIC);
  loop->epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  loop->alarm_.Reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  loop->posted_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->epoll_.is_open() || !loop->alarm_.is_open() || !loop->posted_.is_open())
    return Internal(std::string("making the keeper's loop: ") + std::strerror(errno));
  EventLoop* self = loop.get();
  loop->Watch(loop->alarm_.get(), [self] {
    Drain(self->alarm_.get());
    self->alarm_set_ = kNever;
  });
  loop->Watch(loop->posted_.get(), [self] {
    Drain(self->posted_.get());
    self->TakePosted();
  });
  return loop;
}

Time EventLoop::Now() const { return Time(wall_offset_ + Clock(CLOCK_MONOTONIC)); }

void EventLoop::Watch(int fd, std::function<void()> ready) {
  Forget(fd);
  const std::uint64_t id = next_++;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.u64 = id;
  DIVVY_ASSERT(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  watched_[id] = std::make_shared<Watched>(Watched{fd, std::move(ready)});
  by_fd_[fd] = id;
}

void EventLoop::Forget(int fd) {
  const auto found = by_fd_.find(fd);
  if (found == by_fd_.end()) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watched_.erase(found->second);
  by_fd_.erase(found);
}

EventLoop::TimerId EventLoop::At(Time when, std::function<void()> then) {
  const TimerId id{when, next_++};
  timers_.emplace(id, std::move(then));
  return id;
}

void EventLoop::Cancel(const TimerId& timer) { timers_.erase(timer); }

void EventLoop::Post(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    handed_over_.push_back(std::move(then));
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(posted_.get(), &one, sizeof one);
}

void EventLoop::TakePosted() {
  std::vector<std::function<void()>> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(handed_over_);
  }
  for (const auto& then : taken) then();
}

void EventLoop::FireTimers() {
  // Timers set meanwhile wait for the next iteration, even if they are due, so that descriptors are served first.
  const Time now = Now();
  std::vector<TimerId> due;
  for (const auto& [id, then] : timers_) {
    if (id.first > now) break;
    due.push_back(id);
  }
  for (const TimerId& id : due) {
    const auto found = timers_.find(id);
    if (found == timers_.end()) continue;  // Cancelled by an earlier callback.
    const auto then = std::move(found->second);
    timers_.erase(found);
    then();
  }
}

void EventLoop::SetAlarm() {
  const Time next = timers_.empty() ? kNever : timers_.begin()->first.first;
  if (next == alarm_set_) return;
  itimerspec alarm{};
  if (next != kNever) {
    const std::int64_t at = std::max<std::int64_t>(1, (next.time_since_epoch() - wall_offset_).count());
    alarm.it_value.tv_sec = at / 1'000'000'000;
    alarm.it_value.tv_nsec = at % 1'000'000'000;
  }
  ::timerfd_settime(alarm_.get(), TFD_TIMER_ABSTIME, &alarm, nullptr);
  alarm_set_ = next;
}

void EventLoop::Run(const std::function<void()>& after_each) {
  while (!is_stopped_) {
    SetAlarm();
    epoll_event events[64];
    const int count = ::epoll_wait(epoll_.get(), events, 64, -1);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t which = events[i].data.u64;  // Copied because the kernel's struct is packed.
      const auto found = watched_.find(which);
      if (found == watched_.end()) continue;  // Removed by an earlier callback.
      const std::shared_ptr<Watched> watched = found->second;
      watched->ready();
    }
    FireTimers();
    after_each();
  }
  is_stopped_ = false;
}

}  // namespace divvy::keeper
