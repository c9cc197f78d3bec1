// Keeps two daemons from opening the same database. The lock goes with the process, however it ends.
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

  /// Locks `path`, creating it with this process's id as its text; it is never removed, since a lock on a removed file
  /// would keep nobody out. Held elsewhere: kFailedPrecondition that names `guarded` and the other's pid.
  static Result<FileLock> Acquire(const std::string& path, const std::string& guarded);

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace divvy
