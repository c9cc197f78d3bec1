#include "platform/kept_descriptor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace divvy {
namespace {

constexpr int kFirstKept = 3;

bool Notify(const sockaddr_un& address, socklen_t size, std::string text, const int* fd) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return false;
  iovec piece = {text.data(), text.size()};
  msghdr message = {};
  message.msg_name = const_cast<sockaddr_un*>(&address);
  message.msg_namelen = size;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd != nullptr) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), fd, sizeof(int));
  }
  return ::sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

}  // namespace

bool KeepDescriptor(std::string_view name, int fd) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path == nullptr || (path[0] != '/' && path[0] != '@') || std::strlen(path) >= sizeof address.sun_path)
    return false;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  const std::string named = "\nFDNAME=" + std::string(name) + "\n";
  return Notify(address, size, "FDSTOREREMOVE=1" + named, nullptr) && Notify(address, size, "FDSTORE=1" + named, &fd);
}

Descriptor TakeKeptDescriptor(std::string_view name) {
  const char *pid = std::getenv("LISTEN_PID"), *names = std::getenv("LISTEN_FDNAMES");
  if (pid == nullptr || names == nullptr || ParseInteger(pid) != ::getpid()) return {};
  int fd = kFirstKept;
  for (const std::string_view one : Split(names, ':')) {
    // A duplicate of a socket is closed on exec, so one that is not has not been taken yet.
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
