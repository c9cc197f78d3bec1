// Keeps the logs of running jobs (LOGS/17.log) below a size without moving a byte: the oldest part is returned to the
// file system as a hole at the head of the file (fallocate(2), FALLOC_FL_PUNCH_HOLE). The job keeps writing through its
// descriptor, positions in the log stay the same, and only the head is ever lost. Copying and truncating could lose
// newer lines. The file's length keeps growing; its size on disk does not.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "base/units.h"
#include "model/job.h"

namespace divvy {

/// Returns true if a log has the mode that a supervisor gives it: 0600, or 0660 with our group if a launcher serves a
/// daemon with fewer rights (the group is the daemon's).
bool HasOwnLogMode(const struct stat& status);

/// Returns the offset, in bytes, at which the kept part of an open log begins: the start of a line behind the hole at
/// its head. Returns 0 if the whole log is kept or the file system does not report holes.
std::int64_t KeptFrom(int fd);

class LogLimit {
 public:
  /// `limit`: at least this much of each log is kept, always the newest part; above 0. `note` receives an "event=..."
  /// line the first time that a log cannot be cut.
  LogLimit(std::string directory, Bytes limit, std::function<void(const std::string&)> note)
      : directory_(std::move(directory)), limit_(limit), note_(std::move(note)) {}

  /// Checks the logs of `running` and, one last time, those of jobs that ended since the last call. Cuts a log back to
  /// the limit once it exceeds the limit by an eighth. Leaves a file alone if its mode shows that divvy did not make
  /// it. Call about once a second, from any one thread.
  void Look(std::set<JobId> running);

 private:
  void LookAt(JobId job);

  std::string directory_;
  Bytes limit_;
  std::function<void(const std::string&)> note_;
  std::set<JobId> seen_;  // The jobs that ran at the last call.
  bool has_complained_ = false;
};

}  // namespace divvy
