#include "daemon/leadership/lease_thread.h"

namespace divvy {

LeaseThread::LeaseThread(LeaseKeeper& keeper) : keeper_(keeper), thread_([this] { Run(); }) {}

LeaseThread::~LeaseThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void LeaseThread::Wake() {
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  wake_.notify_one();
}

void LeaseThread::Run() {
  while (true) {
    const Duration pause = keeper_.Step();
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, pause, [this] { return is_ending_ || is_woken_; });
    if (is_ending_) return;
    is_woken_ = false;
  }
}

}  // namespace divvy
