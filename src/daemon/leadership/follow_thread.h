// Keeps the live jobs of the store ready while this controller stands by, on a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "store/follower.h"

namespace divvy {

class FollowThread {
 public:
  /// `log` is called on the thread when following fails for the first time, and when it works again.
  FollowThread(std::unique_ptr<StoreFollower> follower, std::function<void(const std::string& line)> log);
  ~FollowThread() { Stop(); }
  /// Ends the thread and returns what it has read.
  std::shared_ptr<FollowedJobs> Stop();
  /// Returns a copy of what it has read, which may wait for the database. Null after Stop. Any thread.
  std::shared_ptr<FollowedJobs> Copy();

 private:
  void Run();

  std::unique_ptr<StoreFollower> follower_;
  std::function<void(const std::string& line)> log_;
  std::mutex follows_;  // Held while the follower works.
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace divvy
