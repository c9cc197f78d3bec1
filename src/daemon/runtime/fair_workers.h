// Worker threads for reads that may be slow: of files, of the store, of long texts. A user's slow reads delay only
// further reads of that user, not those of others.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace divvy {

/// At most one task of a user runs at a time. The tasks of one user run in the order in which they were submitted, and
/// users with waiting tasks are served in rotation. Tasks of kOwn run before those of users, and in parallel; one
/// thread is kept free for them. A task must itself pass its result to the event loop.
class FairWorkers {
 public:
  /// The uid that stands for root and for the daemon itself.
  static constexpr std::int64_t kOwn = 0;

  FairWorkers() {
    for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
  }
  FairWorkers(const FairWorkers&) = delete;
  FairWorkers& operator=(const FairWorkers&) = delete;
  /// Finishes all submitted tasks first.
  ~FairWorkers() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Queues a task for the user with this uid.
  void Do(std::int64_t user, std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      if (user == kOwn) {
        own_.push_back(std::move(task));
      } else {
        const auto [line, is_new] = lines_.try_emplace(user);
        line->second.push_back(std::move(task));
        if (is_new) turns_.push_back(user);
      }
    }
    wake_.notify_one();
  }

 private:
  using Tasks = std::deque<std::function<void()>>;
  static constexpr std::size_t kThreads = 4;

  bool CanTakeUser() const { return !turns_.empty() && busy_for_users_ + 1 < kThreads; }

  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return !own_.empty() || CanTakeUser() || (is_ending_ && lines_.empty()); });
      if (!own_.empty()) {
        const std::function<void()> task = std::move(own_.front());
        own_.pop_front();
        lock.unlock();
        task();
        lock.lock();
      } else if (CanTakeUser()) {
        RunNextUser(lock);
      } else {
        return;
      }
    }
  }

  void RunNextUser(std::unique_lock<std::mutex>& lock) {
    const std::int64_t user = turns_.front();
    turns_.pop_front();
    ++busy_for_users_;
    {
      Tasks& line = lines_.at(user);  // Stays in place, because only this thread removes it.
      const std::function<void()> task = std::move(line.front());
      line.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
    --busy_for_users_;
    if (lines_.at(user).empty()) lines_.erase(user);
    else turns_.push_back(user);
    // A thread may wait for this user's next task, for a free thread, or for the end.
    wake_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Tasks own_;
  std::map<std::int64_t, Tasks> lines_;  // Users with a waiting or running task.
  std::deque<std::int64_t> turns_;       // Users with a waiting task and no running one.
  std::size_t busy_for_users_ = 0;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace divvy
