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
  /// Creates and maps a page with `device_count` devices, all gates shut. `folder`: descriptor of the directory.
  static Result<std::unique_ptr<PageMap>> Create(int folder, uid_t uid, gid_t gid, unsigned device_count);
  /// Opens the page of an earlier keeper. Errors: kCorruptData if the file is not a valid page.
  static Result<std::unique_ptr<PageMap>> Open(int folder);
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  share::Page& page() { return *page_; }
  const share::Page& page() const { return *page_; }
  /// Inode of the page's file. A process that maps a file with another inode is not counted in it.
  std::uint64_t inode() const { return inode_; }
  /// False after the file was truncated or its header overwritten. The mapping is then private memory.
  bool is_sound() const;

  /// Tries for a short time, at most kLockWaitNs. Without the lock, single words may still be written.
  bool Lock();
  void Unlock();
  /// Takes the lock away from its holder: a process that died, or one that stopped while holding it.
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
