// Keeps the logs of running jobs (LOGS/17.log) below a size without moving a byte: what is oldest is given back to the
// file system as a hole at the head of the file (fallocate(2), FALLOC_FL_PUNCH_HOLE). So the job goes on writing
// through the descriptor that it has, positions in the log stay what they were, and nothing but the head is ever lost,
// as it would be by copying and truncating. The file's length grows on; what it takes on disk does not.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "base/units.h"
#include "model/job.h"

namespace divvy {

/// Whether a log has the mode with which a supervisor made it: 0600, or, where a launcher serves a daemon with fewer
/// rights, 0660 with that daemon's group, which is ours.
bool HasOwnLogMode(const struct stat& status);

/// Where the kept part of an open log begins, in bytes: at a line's beginning, behind the hole at its head. 0: all is
/// kept, or the file system does not say.
std::int64_t KeptFrom(int fd);

class LogLimit {
 public:
  /// `limit`: so much of each log is kept at least, the newest of it; above 0. `note` hears "event=... " where it
  /// cannot be done, once for a folder.
  LogLimit(std::string directory, Bytes limit, std::function<void(const std::string&)> note)
      : directory_(std::move(directory)), limit_(limit), note_(std::move(note)) {}

  /// One look at the logs of `running` and, for the last time, of those that have ended since the look before. A log
  /// that has grown an eighth above the limit is cut back to it. Files that are not divvy's own, by their mode, are
  /// left alone. To be called every second or so, on any one thread.
  void Look(std::set<JobId> running);

 private:
  void LookAt(JobId job);

  std::string directory_;
  Bytes limit_;
  std::function<void(const std::string&)> note_;
  std::set<JobId> seen_;  // Ran at the look before.
  bool has_complained_ = false;
};

}  // namespace divvy
