// Keeps a copy of the store's live jobs in memory up to date while this controller is a standby, on a thread of its
// own, so that the controller can lead at once.
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
  /// Ends the thread and returns the jobs that it has read.
  std::shared_ptr<FollowedJobs> Stop();
  /// Returns a copy of the jobs that the thread has read; null after Stop. May block until the database answers. Any
  /// thread.
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
