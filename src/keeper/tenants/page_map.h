// The keeper's mapping of one tenant's page (platform/gpu/tenant_shm.h). The file belongs to the job's user, who may
// write anything into it, hold its lock or truncate it. None of that crashes or blocks the keeper.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "platform/gpu/tenant_shm.h"

namespace divvy::keeper {

class PageMap {
 public:
  /// Creates and maps the memory page that the keeper shares with a tenant's processes, with `device_count` devices and
  /// all gates shut. `folder`: descriptor of the tenant's directory.
  static Result<std::unique_ptr<PageMap>> Create(int folder, uid_t uid, gid_t gid, unsigned device_count);
  /// Maps the shared-memory page that an earlier keeper created. Errors: kCorruptData if the file is not a valid page.
  static Result<std::unique_ptr<PageMap>> Open(int folder);
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  share::Page& page() { return *page_; }
  const share::Page& page() const { return *page_; }
  /// Inode of the file with the shared-memory page. A process that has mapped a file with another inode does not use
  /// this page.
  std::uint64_t inode() const { return inode_; }
  /// False after a program has truncated the page's file or overwritten its header. A truncated page is replaced by
  /// private memory.
  bool is_sound() const;

  /// Tries to lock the page, for at most kLockWaitNs nanoseconds. Returns true on success. Single words may be written
  /// without the lock.
  bool Lock();
  void Unlock();
  /// Takes the page's lock away from a process that died or was stopped while it held the lock.
  void BreakLock();

 private:
  PageMap(share::Page* page, int index, std::uint64_t inode) : page_(page), index_(index), inode_(inode) {}
  static Result<std::unique_ptr<PageMap>> Map(int fd);

  share::Page* page_;
  int index_;  // Index in the table of guarded pages.
  std::uint64_t inode_;
};

/// How long the loop waits for a page's lock. Holders only add two numbers.
inline constexpr std::uint64_t kLockWaitNs = 50'000;

}  // namespace divvy::keeper
