// Takes away folders that were users', by a thread of its own: what is in them may be much, and as deep as a disk can
// hold. Costs two descriptors and no memory that grows with it, follows no link, and leaves alone what it cannot
// remove.
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
  /// Stops where it is: what is left is found by its name at the next start (IsLeftOver).
  ~FolderRemover();

  /// Renames it to PATH.gone.N at once, and removes that soon. True where nothing lies at `path` any more.
  bool Remove(const std::string& path);
  /// A name that Remove gave, or that a folder has before it is whole.
  static bool IsLeftOver(const std::string& name);

 private:
  void Run();
  bool IsStopped();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> paths_;  // Under mutex_, as is is_stopped_.
  bool is_stopped_ = false;
  std::thread thread_;  // From the first that is to be removed on.
};

}  // namespace divvy::keeper
