// Files that a user names, opened with that user's rights by a process that may do more.
//
// The work is done by a child that has become the user: user, group and supplementary groups are the user's, and it
// has no capabilities. Changing the file system ids alone (setfsuid) would leave CAP_SYS_PTRACE, with which
// /proc/PID/root of any process is open.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "platform/os/launch_descriptor.h"

namespace divvy {

/// Whose rights a file is opened with. `uid` -1: our own.
struct FileOwner {
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  const std::vector<gid_t>* groups = nullptr;

  bool is_set() const { return uid != static_cast<uid_t>(-1); }
};

/// Runs `work` in a child that has become `owner`, and returns when it is done; without an owner `work` runs here. The
/// child has our memory and our descriptors, so what `work` changes and opens is there afterwards, errno included.
/// False with errno EPERM: the child could not become the owner, and `work` did not run.
///
/// On any thread, which waits meanwhile. Cost: about 20 us, whatever the size of the process: no page table is
/// copied.
bool RunAs(const FileOwner& owner, const std::function<void()>& work);

/// As open(2), with mode 0666, but never waits for the other end of a pipe; closed with errno set where it fails. With
/// an owner it opens nothing through a magic link (ELOOP), and no file of the kernel's (EACCES). See RunAs.
Descriptor OpenAs(const FileOwner& owner, const std::string& path, int flags);

/// Whether the file is one of procfs, sysfs, or another file system in which reading and writing calls the kernel:
/// the same bytes may do more when a privileged process writes them.
bool IsKernelFile(int fd);

}  // namespace divvy
