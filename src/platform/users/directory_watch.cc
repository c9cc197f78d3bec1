#include "platform/users/directory_watch.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace divvy {
namespace {

bool IsMissing(const std::string& directory) {
  struct stat about = {};
  return ::stat(directory.c_str(), &about) != 0 && errno == ENOENT;
}

std::string NearestExisting(std::string directory) {
  while (directory.size() > 1 && IsMissing(directory)) directory = DirectoryOf(directory);
  return directory;
}

}  // namespace

std::string DirectoryOf(const std::string& file) {
  const std::size_t end = file.find_last_not_of('/', file.rfind('/'));
  return end == std::string::npos ? "/" : file.substr(0, end + 1);
}

std::optional<std::string> DirectoryWatch::FirstMissing() {
  std::array<char, 4096> events;
  while (events_.is_open() && ::read(events_.get(), events.data(), events.size()) > 0) {
  }
  std::optional<std::string> missing;
  if (!directories_.empty()) RunAs(owner_, [&] { missing = Look(); });
  return missing;
}

// Looks for the first missing directory. Called with the rights of the files' owner.
std::optional<std::string> DirectoryWatch::Look() {
  for (const std::string& directory : directories_) {
    if (!IsMissing(directory)) continue;
    if (!events_.is_open()) events_.Reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    // A directory that is created between the check and the watch causes no event, so the check is repeated after the
    // watch.
    std::string above, watched;
    while ((above = NearestExisting(directory)) != watched && above != directory) {
      ::inotify_add_watch(events_.get(), above.c_str(),
                          IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
      watched = above;
    }
    if (above != directory) return directory;
  }
  return std::nullopt;
}

}  // namespace divvy
