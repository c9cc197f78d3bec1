#include "platform/users/fuse_connections.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

// Mounts the kernel's list of connections, without a path. It is not mounted on every machine.
Descriptor OpenConnections() {
  const Descriptor context(static_cast<int>(::syscall(SYS_fsopen, "fusectl", FSOPEN_CLOEXEC)));
  if (!context.is_open() || ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
    return {};
  const Descriptor mount(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
  return Descriptor(::openat(mount.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool HasUnanswered(int connection) {
  const Descriptor file(::openat(connection, "waiting", O_RDONLY | O_CLOEXEC));
  std::array<char, 32> text{};
  return ::read(file.get(), text.data(), text.size()) > 0 && text[0] != '0';
}

void Abort(int connection) {
  const Descriptor file(::openat(connection, "abort", O_WRONLY | O_CLOEXEC));
  static_cast<void>(!::write(file.get(), "1", 1));
}

}  // namespace

void AbortFuseOf(uid_t owner) {
  Descriptor connections = OpenConnections();
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(connections.get()), ::closedir);
  if (list == nullptr) return;
  connections.Release();  // It belongs to `list` now.
  while (const dirent* entry = ::readdir(list.get())) {
    if (entry->d_name[0] == '.') continue;
    const Descriptor one(::openat(::dirfd(list.get()), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat about = {};
    if (::fstat(one.get(), &about) != 0 || about.st_uid != owner) continue;
    if (HasUnanswered(one.get())) Abort(one.get());
  }
}

}  // namespace divvy
