#include "platform/open_as.h"

#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace divvy {

// The kernel looks at the file system ids alone when it looks up a file; with a user's it takes root's powers away as
// well.
FileRights::FileRights(const FileOwner& owner) : has_changed_(owner.is_set()) {
  if (!has_changed_) return;
  // Neither setfsuid nor setfsgid says whether it did anything, but what was in force before.
  const bool is_in_groups = ::syscall(SYS_setgroups, owner.groups->size(), owner.groups->data()) == 0;
  ::setfsgid(owner.gid);
  ::setfsuid(owner.uid);
  are_owners_ = is_in_groups && static_cast<gid_t>(::setfsgid(owner.gid)) == owner.gid &&
                static_cast<uid_t>(::setfsuid(owner.uid)) == owner.uid;
}

FileRights::~FileRights() {
  if (!has_changed_) return;
  const int error = errno;
  ::setfsuid(::geteuid());
  ::setfsgid(::getegid());
  ::syscall(SYS_setgroups, 0, nullptr);
  errno = error;
}

Descriptor OpenAs(const FileOwner& owner, const std::string& path, int flags) {
  const FileRights rights(owner);
  errno = EPERM;
  return Descriptor(rights.are_owners() ? ::open(path.c_str(), flags | O_NOCTTY | O_NONBLOCK, 0666) : -1);
}

}  // namespace divvy
