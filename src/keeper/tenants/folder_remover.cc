#include "keeper/tenants/folder_remover.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "platform/os/remove_tree.h"

namespace divvy::keeper {
namespace {

constexpr int kMostNames = 1'000;

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
    // The folder could not be removed now. That is tried again with the next folder, or when a keeper starts.
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
