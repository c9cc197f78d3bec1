// Prevents two daemons from opening the same database. The lock is released when the process ends, for any reason.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace divvy {

class FileLock {
 public:
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  /// Locks `path`, which is created if necessary, and writes this process's pid into it. The file is never removed,
  /// because a lock on a removed file excludes no other process. If another process holds the lock:
  /// kFailedPrecondition, naming `guarded` and that pid.
  static Result<FileLock> Acquire(const std::string& path, const std::string& guarded);

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace divvy
