// Removes the logs that divvy keeps (LOGS/17.log) when their jobs ended long ago. Never removes a file that a user has
// named, wherever it is stored. Works through the folder in small steps, on any one thread.
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
  /// For an agent, which has no store of ended jobs. A log then counts as old if it was not written to since the time
  /// that Step is given, unless its job still exists (`is_alive`).
  OldLogs(std::string directory, std::function<bool(JobId)> is_alive)
      : directory_(std::move(directory)), is_alive_(std::move(is_alive)) {}

  /// Removes logs of jobs that ended before `ended_before`. One step examines at most 256 files and removes at most 32,
  /// so that other work can run in between. Returns true while there is more; the next step continues where this one
  /// stopped. If the store no longer has the job, its log counts as old if it was not written to since `ended_before`.
  /// A log that cannot be removed does not prevent the removal of others; the last step of the round then returns the
  /// error.
  Result<bool> Step(Time ended_before);

  /// The number of logs that were removed so far.
  std::uint64_t removed() const { return removed_; }

 private:
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };

  bool IsOld(const std::string& name, Time ended_before);

  std::string directory_;
  Store* store_ = nullptr;  // Null if there is no history.
  std::function<bool(JobId)> is_alive_;
  std::unique_ptr<DIR, Close> listing_;  // Open from the first step of a round to its last.
  std::string failure_;                  // The first failure of the round.
  std::uint64_t removed_ = 0;
};

}  // namespace divvy
