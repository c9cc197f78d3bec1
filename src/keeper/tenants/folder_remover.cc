#include "keeper/tenants/folder_remover.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <system_error>
#include <utility>

#include "platform/os/launch_descriptor.h"

namespace divvy::keeper {
namespace {

constexpr int kMostNames = 1'000;

Descriptor OpenFolder(int at, const char* name) {
  constexpr int kHow = O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  Descriptor folder(::openat(at, name, kHow));
  // Our own may be shut to ourselves, where we are not root.
  if (!folder.is_open() && errno == EACCES && ::fchmodat(at, name, 0700, 0) == 0)
    folder.Reset(::openat(at, name, kHow));
  return folder;
}

DIR* EntriesOf(int folder) {
  DIR* entries = ::fdopendir(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
  if (entries != nullptr) ::rewinddir(entries);
  return entries;
}

/// Nobody else puts anything in it from now on.
void Close(int folder) {
  [[maybe_unused]] const int owned = ::fchown(folder, ::geteuid(), ::getegid());
  [[maybe_unused]] const int shut = ::fchmod(folder, 0700);
}

/// Of one folder: files go, and folders are moved up into `top`, so that nothing is ever deeper than that. True if
/// something was changed.
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

/// Of all folders in `top`. True if something was changed.
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
    if (!is_less && !is_flatter) return;  // What is left is nothing that we can remove.
  }
}

}  // namespace

FolderRemover::~FolderRemover() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool FolderRemover::IsStopped() {
  const std::lock_guard lock(mutex_);
  return is_stopped_;
}

bool FolderRemover::IsLeftOver(const std::string& name) {
  return name.ends_with(".new") || name.ends_with(".gone") || name.find(".gone.") != std::string::npos;
}

bool FolderRemover::Remove(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return errno == ENOENT;
  const std::size_t slash = path.rfind('/');
  std::string gone = path;
  if (path.find(".gone.", slash == std::string::npos ? 0 : slash) == std::string::npos) {
    for (int i = 0; i < kMostNames; ++i) {
      gone = path + ".gone." + std::to_string(i);
      if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, gone.c_str(), RENAME_NOREPLACE) == 0) break;
      if (errno != EEXIST) return false;
    }
  }
  const std::lock_guard lock(mutex_);
  paths_.push_back(gone);
  changed_.notify_all();
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // With the next one, or at the next start.
  }
  return true;
}

void FolderRemover::Run() {
  for (;;) {
    std::string path;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopped_ || !paths_.empty(); });
      if (is_stopped_) return;
      path = std::move(paths_.front());
      paths_.pop_front();
    }
    RemoveTree(path, [this] { return IsStopped(); });
  }
}

}  // namespace divvy::keeper
