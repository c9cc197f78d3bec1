#include "platform/users/open_as_user.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

namespace divvy {
namespace {

constexpr std::size_t kStackSize = std::size_t{64} << 10;
constexpr long kConfigfsMagic = 0x62656570;  // Not in linux/magic.h.
constexpr std::array<long, 13> kKernelFileSystems = {
    PROC_SUPER_MAGIC, SYSFS_MAGIC,      CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,
    TRACEFS_MAGIC,    SECURITYFS_MAGIC, SELINUX_MAGIC,      SMACK_MAGIC,         EFIVARFS_MAGIC,
    BINFMTFS_MAGIC,   NSFS_MAGIC,       kConfigfsMagic};

struct Errand {
  const FileOwner& owner;
  const std::function<void()>& work;
  bool is_done = false;
};

void DoErrand(Errand& errand) {
  if (!BecomeOwner(errand.owner)) return;
  errand.work();
  errand.is_done = true;
}

#ifndef __SANITIZE_THREAD__
int RunErrand(void* argument) {
  DoErrand(*static_cast<Errand*>(argument));
  ::_exit(0);
}
#endif

Descriptor OpenWithoutMagicLinks(const std::string& path, int flags) {
  open_how how = {};
  how.flags = static_cast<unsigned>(flags | O_NOCTTY | O_NONBLOCK);
  how.mode = (flags & O_CREAT) != 0 ? 0666 : 0;
  how.resolve = RESOLVE_NO_MAGICLINKS;
  return Descriptor(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
}

Descriptor UnlessKernelFile(Descriptor file) {
  if (!file.is_open() || !IsKernelFile(file.get())) return file;
  errno = EACCES;
  return Descriptor();
}

}  // namespace

// The raw system calls change only this process. The library's wrappers would also signal the other threads, whose
// memory a child of RunAs shares.
//
// The real and the saved uid stay ours. The kernel ignores both when it opens a file. If either were the user's, the
// user could send this process signals: SIGSTOP would block the waiting caller indefinitely.
bool BecomeOwner(const FileOwner& owner) {
  __user_cap_header_struct self = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const std::array<__user_cap_data_struct, 2> none = {};
  const auto kept = static_cast<uid_t>(-1);
  return ::syscall(SYS_setgroups, owner.groups->size(), owner.groups->data()) == 0 &&
         ::syscall(SYS_setresgid, owner.gid, owner.gid, owner.gid) == 0 &&
         ::syscall(SYS_setresuid, kept, owner.uid, kept) == 0 &&
         (owner.uid == 0 || ::syscall(SYS_capset, &self, none.data()) == 0);
}

bool RunAs(const FileOwner& owner, const std::function<void()>& work) {
  if (!owner.is_set()) {
    work();
    return true;
  }
  Errand errand = {.owner = owner, .work = work};
#ifdef __SANITIZE_THREAD__
  // The thread sanitizer cannot follow a child that shares its parent's memory. So a thread does the work here; it has
  // credentials of its own as well.
  int error = 0;
  std::thread([&] {
    DoErrand(errand);
    error = errno;
  }).join();
#else
  alignas(16) std::array<char, kStackSize> stack;
  // Blocks all signals, because a handler in the child would change the memory that it shares with this process.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  // Works like vfork: this thread waits until the child has ended. The child's end sends no signal, and only this call
  // reaps it.
  const int pid = ::clone(RunErrand, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | CLONE_FILES, &errand);
  const int error = errno;
  while (pid > 0 && ::waitpid(pid, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
  errno = errand.is_done ? error : EPERM;
  return errand.is_done;
}

Descriptor OpenAs(const FileOwner& owner, const std::string& path, int flags) {
  if (!owner.is_set()) return Descriptor(::open(path.c_str(), flags | O_NOCTTY | O_NONBLOCK, 0666));
  Descriptor file;
  RunAs(owner, [&] { file = OpenWithoutMagicLinks(path, flags); });
  return UnlessKernelFile(std::move(file));
}

Descriptor OpenAsOwner(const std::string& path, int flags) {
  return UnlessKernelFile(OpenWithoutMagicLinks(path, flags));
}

bool IsKernelFile(int fd) {
  struct statfs about = {};
  return ::fstatfs(fd, &about) == 0 && std::ranges::find(kKernelFileSystems, about.f_type) != kKernelFileSystems.end();
}

}  // namespace divvy
