#include "platform/os/remove_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

Descriptor OpenFolder(int at, const char* name) {
  constexpr int kHow = O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  Descriptor folder(::openat(at, name, kHow));
  // If we are not root, even our own folder may lack the permissions to enter it.
  if (!folder.is_open() && errno == EACCES && ::fchmodat(at, name, 0700, 0) == 0)
    folder.Reset(::openat(at, name, kHow));
  return folder;
}

DIR* EntriesOf(int folder) {
  DIR* entries = ::fdopendir(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  if (entries != nullptr) ::rewinddir(entries);
  return entries;
}

/// Makes the user of this process the owner of the folder, so that no other user can add files to it.
void Close(int folder) {
  [[maybe_unused]] const int owned = ::fchown(folder, ::geteuid(), ::getegid());
  [[maybe_unused]] const int shut = ::fchmod(folder, 0700);
}

/// Empties one folder: deletes its files and moves its sub-folders up into `top`, so that nothing is nested deeper than
/// that. Returns true if something changed.
bool Flatten(int top, const Descriptor& folder, std::uint64_t& number, const std::function<bool()>& is_stopped) {
  DIR* entries = EntriesOf(folder.get());
  if (entries == nullptr) return false;
  bool is_changed = false;
  while (const dirent* entry = is_stopped() ? nullptr : ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (::unlinkat(folder.get(), name.c_str(), 0) == 0 || ::unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR) == 0) {
      is_changed = true;
    } else if (folder.get() != top) {
      const std::string up = std::to_string(number++);
      is_changed |= ::renameat2(folder.get(), name.c_str(), top, up.c_str(), RENAME_NOREPLACE) == 0;
    }
  }
  ::closedir(entries);
  return is_changed;
}

/// Calls Flatten() for all folders in `top`. Returns true if something changed.
bool FlattenThoseIn(int top, std::uint64_t& number, const std::function<bool()>& is_stopped) {
  DIR* entries = EntriesOf(top);
  if (entries == nullptr) return false;
  bool is_changed = false;
  while (const dirent* entry = is_stopped() ? nullptr : ::readdir(entries)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const Descriptor folder = OpenFolder(top, name.c_str());
    if (!folder.is_open()) continue;
    Close(folder.get());
    is_changed |= Flatten(top, folder, number, is_stopped);
  }
  ::closedir(entries);
  return is_changed;
}

}  // namespace

void RemoveTree(const std::string& path, const std::function<bool()>& is_stopped) {
  if (::unlink(path.c_str()) == 0) return;
  const Descriptor top = OpenFolder(AT_FDCWD, path.c_str());
  if (!top.is_open()) return;
  Close(top.get());
  std::uint64_t number = 0;
  while (!is_stopped()) {
    const bool is_less = Flatten(top.get(), top, number, is_stopped);
    if (::rmdir(path.c_str()) == 0) return;
    const bool is_flatter = FlattenThoseIn(top.get(), number, is_stopped);
    if (!is_less && !is_flatter) return;  // We cannot remove the rest.
  }
}

}  // namespace divvy
