// Deletes old data: final jobs in the store, and the logs that divvy keeps. Starts a round every hour. A round consists
// of many short steps on other threads with pauses between them, so that neither the loop nor a commit waits for it.
// Used on the loop's thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "daemon/runtime/log.h"
#include "daemon/storage/old_logs.h"
#include "platform/os/clock.h"
#include "store/store.h"

namespace divvy {

class Housekeeping {
 public:
  struct Keep {
    Duration finished{0};  // How long final jobs are kept; 0: indefinitely.
    Duration logs{0};      // How long job logs are kept; 0: indefinitely.
    std::string log_directory;
  };
  /// `write` and `read` run a task on the thread that commits and on the one that reads. `post` runs a task on the
  /// loop's thread and may be called from any thread; `after` does so after a delay.
  struct Ports {
    std::function<void(std::function<void()>)> write;
    std::function<void(std::function<void()>)> read;
    std::function<void(std::function<void()>)> post;
    std::function<void(Duration, std::function<void()>)> after;
  };

  /// Writes deletions and failures to `log`. All arguments must outlive the tasks that are handed to the ports.
  Housekeeping(Store& store, const Clock& clock, const Log& log, Keep keep, Ports ports);

  /// Starts a round now, and one every hour.
  void Start();

 private:
  void ForgetJobs(Time ended_before);
  void RemoveLogs(Time ended_before);

  Store& store_;
  const Clock& clock_;
  const Log& log_;
  Keep keep_;
  Ports ports_;
  OldLogs old_logs_;  // Used only by the task that is under way; there is at most one.
  bool is_forgetting_ = false;
  bool is_removing_ = false;
  std::uint64_t logs_removed_before_ = 0;  // The value of removed() at the start of this round.
};

}  // namespace divvy
