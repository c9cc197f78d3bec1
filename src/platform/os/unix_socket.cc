#include "platform/os/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace divvy {
namespace {

constexpr std::size_t kMostDescriptors = 200;

Error SystemError(const std::string& doing, int error) {
  Error result = Unreachable(doing + ": " + std::strerror(error));
  if (error == EACCES || error == EPERM) result.code = ErrorCode::kPermissionDenied;
  return result;
}

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return InvalidArgument("the socket path " + path + " has " + std::to_string(path.size()) + " bytes, at most " +
                           std::to_string(sizeof address.sun_path - 1) + " are possible; use a shorter directory");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

/// Succeeds if no process listens at `path`, even if an unused socket of an earlier process is there.
Status CheckNobodyServes(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) {
    return Error{ErrorCode::kAlreadyExists, path + " exists and is not a socket; remove it"};
  }
  Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (probe.get() < 0) return SystemError("opening a socket", errno);
  int failed = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  // EAGAIN: the socket's queue of connections is full, so it has a listener.
  if (failed == 0 || errno == EAGAIN) return Error{ErrorCode::kAlreadyExists, "a daemon already serves on " + path};
  if (errno == ECONNREFUSED || errno == ENOENT) return {};
  return SystemError("looking at the socket " + path, errno);
}

}  // namespace

Result<Descriptor> ListenUnix(const std::string& path, unsigned mode) {
  DIVVY_TRY(sockaddr_un address, AddressOf(path));
  DIVVY_CHECK(CheckNobodyServes(path, address));
  const std::string fresh = path + "~";
  DIVVY_TRY(sockaddr_un fresh_address, AddressOf(fresh));
  Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (listener.get() < 0) return SystemError("opening a socket", errno);
  ::unlink(fresh.c_str());
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&fresh_address), sizeof fresh_address) != 0) {
    return SystemError("making the socket " + path, errno);
  }
  if (::chmod(fresh.c_str(), static_cast<mode_t>(mode)) != 0 || ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::rename(fresh.c_str(), path.c_str()) != 0) {
    Error error = SystemError("making the socket " + path, errno);
    ::unlink(fresh.c_str());
    return error;
  }
  return listener;
}

std::pair<Descriptor, Descriptor> MakeSocketPair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

ssize_t SendWithDescriptors(int socket, std::string_view bytes, std::span<const int> fds, int flags) {
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostDescriptors * sizeof(int))> control;
  if (!fds.empty()) {
    const std::size_t size = std::min(fds.size(), kMostDescriptors) * sizeof(int);
    std::memset(control.data(), 0, CMSG_SPACE(size));
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(head), fds.data(), size);
  }
  return ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
}

PeerCredentials CredentialsOf(int fd) {
  PeerCredentials peer;
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
    peer.uid = credentials.uid;
    peer.gid = credentials.gid;
    peer.pid = credentials.pid;
  }
  return peer;
}

}  // namespace divvy
