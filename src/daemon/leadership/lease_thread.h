// Calls LeaseKeeper::Step, which takes and renews the lease of the leading controller, on a thread of its own.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "driver/lease_keeper.h"

namespace divvy {

class LeaseThread {
 public:
  explicit LeaseThread(LeaseKeeper& keeper);
  /// Ends the thread. The lease stays as it is.
  ~LeaseThread();
  /// Lets the next Step begin now.
  void Wake();

 private:
  void Run();

  LeaseKeeper& keeper_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ = false;
  bool is_woken_ = false;
  std::thread thread_;
};

}  // namespace divvy
