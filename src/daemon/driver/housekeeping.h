// Forgets what has been kept for long enough: final jobs in the store and the logs that divvy keeps. Begins a round
// every hour; a round is many short steps on other threads with a pause between them, so that neither the loop nor a
// commit waits for it. Belongs to the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "daemon/driver/old_logs.h"
#include "daemon/runtime/log.h"
#include "platform/os/clock.h"
#include "store/store.h"

namespace divvy {

class Housekeeping {
 public:
  struct Keep {
    Duration finished{0};  // How long final jobs stay. 0: for ever.
    Duration logs{0};      // How long their logs do. 0: for ever.
    std::string log_directory;
  };
  /// `write` and `read` run a task on the thread that commits and on the one that reads; `post` runs one on the loop's,
  /// from any thread; `after` does so later.
  struct Ports {
    std::function<void(std::function<void()>)> write;
    std::function<void(std::function<void()>)> read;
    std::function<void(std::function<void()>)> post;
    std::function<void(Duration, std::function<void()>)> after;
  };

  /// `log` is told what went and what could not. All that is given must outlive the tasks that are handed to the ports.
  Housekeeping(Store& store, const Clock& clock, const Log& log, Keep keep, Ports ports);

  /// A round now, and one every hour.
  void Start();

 private:
  void ForgetJobs(Time ended_before);
  void RemoveLogs(Time ended_before);

  Store& store_;
  const Clock& clock_;
  const Log& log_;
  Keep keep_;
  Ports ports_;
  OldLogs old_logs_;  // Used by the task that is under way alone; there is one at a time.
  bool is_forgetting_ = false;
  bool is_removing_ = false;
  std::uint64_t logs_removed_before_ = 0;  // This round.
};

}  // namespace divvy
