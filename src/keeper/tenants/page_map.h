// The keeper's sight of one tenant's page (platform/gpu/tenant_page.h). The file belongs to the job's user, who may
// write into it what he likes, hold its lock, and cut it short; none of that ends or holds up the keeper.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "platform/gpu/tenant_page.h"

namespace divvy::keeper {

class PageMap {
 public:
  /// Makes a page with `device_count` devices, all shut, and maps it. `folder` is a directory's descriptor.
  static Result<std::unique_ptr<PageMap>> Create(int folder, uid_t uid, gid_t gid, unsigned device_count);
  /// The page that an earlier keeper made. kCorruptData: what lies there is none.
  static Result<std::unique_ptr<PageMap>> Open(int folder);
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  share::Page& page() { return *page_; }
  const share::Page& page() const { return *page_; }
  /// Of its file: who maps another one than the keeper counts in nothing.
  std::uint64_t inode() const { return inode_; }
  /// False: the file was cut short or its head overwritten. What we see of it is then only ours.
  bool is_sound() const;

  /// Tries for a moment (kLockWait), never longer. Without it, single words may still be written.
  bool Lock();
  void Unlock();
  /// Takes the lock away from whoever has it: a process that died, or one that stands still with it.
  void BreakLock();

 private:
  PageMap(share::Page* page, int index, std::uint64_t inode) : page_(page), index_(index), inode_(inode) {}
  static Result<std::unique_ptr<PageMap>> Map(int fd);

  share::Page* page_;
  int index_;  // Among those that are guarded.
  std::uint64_t inode_;
};

/// For how long the loop waits for the lock of a page: those who hold it add two numbers.
inline constexpr std::uint64_t kLockWaitNs = 50'000;

}  // namespace divvy::keeper
