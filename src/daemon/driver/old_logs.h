// Removes the logs that divvy keeps (LOGS/17.log) when their jobs ended long ago. A file that a user chose is never
// touched, wherever it lies. Works through the folder in small steps, on any one thread.
#pragma once

#include <dirent.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "store/store.h"

namespace divvy {

class OldLogs {
 public:
  OldLogs(std::string directory, Store& store) : directory_(std::move(directory)), store_(&store) {}
  /// Of an agent, which has no history: old is what nobody has written to since, unless the job `is_alive`.
  OldLogs(std::string directory, std::function<bool(JobId)> is_alive)
      : directory_(std::move(directory)), is_alive_(std::move(is_alive)) {}

  /// Removes logs of jobs that ended before `ended_before`. One step looks at 256 files at most and removes 32, so that
  /// other work can pass in between; it says true while there is more, and the next step goes on where it left off. A
  /// log whose job the history has forgotten counts as old when nobody has written to it since. One that cannot be
  /// removed does not keep the others; the last step of the round is the error then.
  Result<bool> Step(Time ended_before);

  std::uint64_t removed() const { return removed_; }

 private:
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };

  bool IsOld(const std::string& name, Time ended_before);

  std::string directory_;
  Store* store_ = nullptr;  // Null: there is no history.
  std::function<bool(JobId)> is_alive_;
  std::unique_ptr<DIR, Close> listing_;  // Open from the first step of a round to its last.
  std::string failure_;                  // The round's first.
  std::uint64_t removed_ = 0;
};

}  // namespace divvy
