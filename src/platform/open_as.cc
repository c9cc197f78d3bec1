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
  if (owner.is_set()) {
    ::syscall(SYS_setgroups, owner.groups->size(), owner.groups->data());
    ::setfsgid(owner.gid);
    ::setfsuid(owner.uid);
  }
  Descriptor file(::open(path.c_str(), flags | O_NOCTTY | O_NONBLOCK, 0666));
  const int error = errno;
  if (owner.is_set()) {
    ::setfsuid(::geteuid());
    ::setfsgid(::getegid());
    ::syscall(SYS_setgroups, 0, nullptr);
  }
  errno = error;
  return file;
}

}  // namespace divvy
