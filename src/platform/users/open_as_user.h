// Opens files that a user names with that user's rights, in a process that may have more.
//
// A child process that has become the user does the work: it has the user's user, group and supplementary groups, and
// no capabilities. Changing only the file system ids (setfsuid) would keep CAP_SYS_PTRACE, which gives access to
// /proc/PID/root of any process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "platform/os/unique_fd.h"

namespace divvy {

/// The user with whose rights a file is opened. `uid` -1: this process's own.
struct FileOwner {
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  const std::vector<gid_t>* groups = nullptr;

  bool is_set() const { return uid != static_cast<uid_t>(-1); }
};

/// Runs `work` in a child process that has become `owner`, and returns when it is done. Without an owner, runs `work`
/// in this process. The child shares our memory and descriptors, so everything that `work` changes or opens is visible
/// afterwards, errno included. Returns false with errno EPERM if the child could not become the owner; `work` did not
/// run then.
///
/// Callable on any thread; blocks it meanwhile. Cost: about 20 us, whatever the size of the process, because no page
/// table is copied.
bool RunAs(const FileOwner& owner, const std::function<void()>& work);

/// Makes this process `owner` for good as far as files are concerned, as in RunAs: the user can neither signal nor
/// trace it. Only in a process with one thread. Returns false with errno if that failed.
bool BecomeOwner(const FileOwner& owner);

/// Like open(2) with mode 0666, but never waits for the other end of a pipe. Returns a closed descriptor with errno set
/// on failure. With an owner it follows no magic links (ELOOP) and opens no kernel files (EACCES). See RunAs and
/// IsKernelFile.
Descriptor OpenAs(const FileOwner& owner, const std::string& path, int flags);

/// Does the same in a process that has become the user.
Descriptor OpenAsOwner(const std::string& path, int flags);

/// True if the file is in procfs, sysfs or another file system in which reads and writes call the kernel. There the
/// same bytes may have more effect when a privileged process writes them.
bool IsKernelFile(int fd);

}  // namespace divvy
