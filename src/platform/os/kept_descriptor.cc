#include "platform/os/kept_descriptor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "base/text.h"
#include "platform/os/unix_socket.h"

namespace divvy {
namespace {

constexpr int kFirstKept = 3;

/// Sends `what` about the descriptor `name`, as sd_notify does.
bool Tell(std::string_view what, std::string_view name, std::span<const int> fds) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path == nullptr || (path[0] != '/' && path[0] != '@') || std::strlen(path) >= sizeof address.sun_path)
    return false;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  const Descriptor manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!manager.is_open() || ::connect(manager.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return false;
  const std::string text = std::string(what) + "=1\nFDNAME=" + std::string(name) + "\n";
  return SendWithDescriptors(manager.get(), text, fds, MSG_DONTWAIT) >= 0;
}

}  // namespace

bool KeepDescriptor(std::string_view name, int fd) {
  return DropKeptDescriptor(name) && Tell("FDSTORE", name, {&fd, 1});
}

bool DropKeptDescriptor(std::string_view name) { return Tell("FDSTOREREMOVE", name, {}); }

Descriptor TakeKeptDescriptor(std::string_view name) {
  const char *pid = std::getenv("LISTEN_PID"), *names = std::getenv("LISTEN_FDNAMES");
  if (pid == nullptr || names == nullptr || ParseInteger(pid) != ::getpid()) return {};
  int fd = kFirstKept;
  for (const std::string_view one : Split(names, ':')) {
    // TakeKeptDescriptor() sets close-on-exec, so a descriptor without it has not been taken yet.
    if (one == name && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) {
      Descriptor kept(fd);
      ::fcntl(fd, F_SETFD, FD_CLOEXEC);
      return kept;
    }
    ++fd;
  }
  return {};
}

}  // namespace divvy
