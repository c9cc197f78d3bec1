// Waits for directories that a slow client makes a moment after it has submitted the job that writes into them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "platform/os/launch_descriptor.h"
#include "platform/users/open_as.h"

namespace divvy {

/// How long a start waits for the directory of one of its files.
constexpr Duration kDirectoryPatience = std::chrono::seconds(10);
/// How often the waiter looks by itself: inotify reports nothing that another machine does on a network file system,
/// and nothing at all where the user may not list the directory above or has no inotify instance left.
constexpr Duration kDirectoryLookPause = std::chrono::milliseconds(500);

/// Looks up every path with the rights of `owner`, so a user can make no process of ours look where the user may not.
class DirectoryWatch {
 public:
  DirectoryWatch(const FileOwner& owner, std::vector<std::string> directories)
      : owner_(owner), directories_(std::move(directories)) {}

  /// The first directory that does not exist; nothing: all do, or opening a file there will tell what is wrong with
  /// them. The nearest existing directory above it is watched from then on.
  std::optional<std::string> FirstMissing();
  /// Becomes readable when something was made in a watched directory, and FirstMissing() should be called again. -1:
  /// nothing is watched.
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
