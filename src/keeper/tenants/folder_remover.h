// Removes folders that belonged to users, on a separate thread: they may be large, and as deep as the disk allows.
// Needs two descriptors and constant memory, follows no links, and skips what it cannot remove.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

namespace divvy::keeper {

class FolderRemover {
 public:
  FolderRemover() = default;
  /// Stops removing files at once. The next keeper finds the remaining folders by their names (IsLeftOver).
  ~FolderRemover();

  /// Renames the folder to PATH.gone.N at once and removes it soon after. Returns true if nothing is left at `path`.
  bool Remove(const std::string& path);
  /// Returns true for the name of a folder that is not in use: one that Remove has renamed, or one that a keeper was
  /// still creating.
  static bool IsLeftOver(const std::string& name);

 private:
  void Run();
  bool IsStopped();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> paths_;  // Guarded by mutex_, like is_stopped_.
  bool is_stopped_ = false;
  std::thread thread_;  // Started by the first Remove.
};

}  // namespace divvy::keeper
