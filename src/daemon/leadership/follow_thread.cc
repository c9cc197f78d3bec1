#include "daemon/leadership/follow_thread.h"

#include <chrono>
#include <utility>

#include "daemon/runtime/log.h"

namespace divvy {
namespace {

constexpr auto kFollowEvery = std::chrono::seconds(1);

}  // namespace

FollowThread::FollowThread(std::unique_ptr<StoreFollower> follower, std::function<void(const std::string& line)> log)
    : follower_(std::move(follower)), log_(std::move(log)), thread_([this] { Run(); }) {}

std::shared_ptr<FollowedJobs> FollowThread::Stop() {
  follower_->Stop();
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
  return follower_->jobs();
}

std::shared_ptr<FollowedJobs> FollowThread::Copy() {
  const std::lock_guard works(follows_);
  const std::lock_guard lock(mutex_);
  return is_ending_ ? nullptr : std::make_shared<FollowedJobs>(*follower_->jobs());
}

void FollowThread::Run() {
  bool is_failing = false;
  while (true) {
    const Status done = [this] {
      const std::lock_guard works(follows_);
      return follower_->Follow();
    }();
    std::unique_lock lock(mutex_);
    if (is_ending_) return;
    if (!done && !std::exchange(is_failing, true)) log_("event=follows_not error=" + LogQuoted(done.error().message));
    if (done && std::exchange(is_failing, false)) log_("event=follows_again");
    wake_.wait_for(lock, kFollowEvery, [this] { return is_ending_; });
    if (is_ending_) return;
  }
}

}  // namespace divvy
