// Waits for directories that a slow client creates a moment after it submitted the job that writes into them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "platform/os/unique_fd.h"
#include "platform/users/open_as_user.h"

namespace divvy {

/// How long a start waits for the directory of one of its files.
constexpr Duration kDirectoryTimeout = std::chrono::seconds(10);
/// How often the waiter checks without an event. inotify does not report what another machine does on a network file
/// system. It reports nothing at all if the user may not list the parent directory or has no inotify instance left.
constexpr Duration kDirectoryLookPause = std::chrono::milliseconds(500);

/// Looks up every path with the rights of `owner`, so that a user cannot make our processes look where the user may
/// not.
class DirectoryWatch {
 public:
  DirectoryWatch(const FileOwner& owner, std::vector<std::string> directories)
      : owner_(owner), directories_(std::move(directories)) {}

  /// Returns the first directory that does not exist, and watches its nearest existing ancestor from then on. Returns
  /// nullopt if all exist, or if opening a file there will report what is wrong with them.
  std::optional<std::string> FirstMissing();
  /// Becomes readable when something was created in a watched directory; then call FirstMissing() again. -1: nothing is
  /// watched.
  int fd() const { return events_.get(); }

 private:
  std::optional<std::string> Look();

  FileOwner owner_;
  std::vector<std::string> directories_;
  Descriptor events_;
};

/// "/home/ada/logs" for "/home/ada/logs/1.out". Requires: `file` is absolute.
std::string DirectoryOf(const std::string& file);

}  // namespace divvy
