#include "platform/open_as.h"

#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace divvy {

// The kernel looks at the file system ids alone when it opens a file; with a user's it takes root's powers away as
// well.
Descriptor OpenAs(const FileOwner& owner, const std::string& path, int flags) {
  if (!owner.is_set()) return Descriptor(::open(path.c_str(), flags | O_NOCTTY | O_NONBLOCK, 0666));
  // Neither setfsuid nor setfsgid says whether it did anything, but what was in force before.
  const bool is_in_groups = ::syscall(SYS_setgroups, owner.groups->size(), owner.groups->data()) == 0;
  ::setfsgid(owner.gid);
  ::setfsuid(owner.uid);
  const bool is_owner = is_in_groups && static_cast<gid_t>(::setfsgid(owner.gid)) == owner.gid &&
                        static_cast<uid_t>(::setfsuid(owner.uid)) == owner.uid;
  Descriptor file(is_owner ? ::open(path.c_str(), flags | O_NOCTTY | O_NONBLOCK, 0666) : -1);
  const int error = is_owner ? errno : EPERM;
  ::setfsuid(::geteuid());
  ::setfsgid(::getegid());
  ::syscall(SYS_setgroups, 0, nullptr);
  errno = error;
  return file;
}

}  // namespace divvy
