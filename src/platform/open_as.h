// Files opened with a user's rights, by a process that may do more.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "platform/launch_descriptor.h"

namespace divvy {

/// Whose rights a file is opened with. `uid` -1: our own.
struct FileOwner {
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  const std::vector<gid_t>* groups = nullptr;

  bool is_set() const { return uid != static_cast<uid_t>(-1); }
};

/// While it lives, this thread looks up and opens files with the owner's rights; afterwards it is in no further groups.
/// Keeps errno.
class FileRights {
 public:
  explicit FileRights(const FileOwner& owner);
  ~FileRights();
  FileRights(const FileRights&) = delete;
  FileRights& operator=(const FileRights&) = delete;

  /// False: the owner's rights are not available. The caller must not touch a file then, rather than do so with more.
  bool are_owners() const { return are_owners_; }

 private:
  bool has_changed_ = false;
  bool are_owners_ = true;
};

/// As open(2), with mode 0666, but never waits for the other end of a pipe; closed with errno set where it fails. Only
/// this thread's rights change meanwhile; afterwards it is in no further groups. Fails with EPERM where the owner's
/// rights cannot be had, rather than with more of them.
Descriptor OpenAs(const FileOwner& owner, const std::string& path, int flags);

}  // namespace divvy
