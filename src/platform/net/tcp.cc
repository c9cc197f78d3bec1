#include "platform/net/tcp.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace divvy {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Result<Addresses> LookUp(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    return Unreachable("there is no host " + host + ": " +
                       (failed == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(failed)));
  }
  return Addresses(found);
}

/// Returns 0, or the errno of the failure.
int Connect(int fd, const addrinfo& address, Duration timeout) {
  if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready{fd, POLLOUT, 0};
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  int count = 0;
  do {
    count = ::poll(&ready, 1, static_cast<int>(milliseconds));
  } while (count < 0 && errno == EINTR);
  if (count == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (count < 0 || ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

std::string NumberOf(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int failed = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, text.data(),
                                   static_cast<socklen_t>(text.size()), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? std::string(text.data()) : "";
}

}  // namespace

Result<int> ListenTcp(const std::string& host, std::uint16_t port) {
  DIVVY_TRY(const Addresses addresses, LookUp(host, port, AI_PASSIVE));
  const addrinfo& address = *addresses;
  const int fd = ::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol);
  if (fd < 0) return Unreachable(std::string("opening a socket: ") + std::strerror(errno));
  const int yes = 1;
  // Lets a restarted daemon listen while old connections to the port are in TIME_WAIT.
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(fd, address.ai_addr, address.ai_addrlen) == 0 && ::listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  ::close(fd);
  Error refused = Unreachable("listening at " + ToString(HostPort{host, port}) + ": " + std::strerror(error));
  if (error == EACCES) refused.code = ErrorCode::kPermissionDenied;
  if (error == EADDRINUSE) refused.code = ErrorCode::kAlreadyExists;
  return refused;
}

Result<int> DialTcp(const HostPort& address, Duration timeout) {
  DIVVY_TRY(const Addresses addresses, LookUp(address.host, address.port, 0));
  int error = ECONNREFUSED;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    const int fd = ::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol);
    if (fd < 0) {
      error = errno;
      continue;
    }
    error = Connect(fd, *one, timeout);
    if (error == 0) {
      const int yes = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      // Keepalive detects a peer that disappeared without closing the connection.
      const int idle_seconds = 60;
      ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
      ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
      ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
      return fd;
    }
    ::close(fd);
  }
  return Unreachable("cannot connect to " + ToString(address) + ": " + std::strerror(error));
}

std::uint16_t PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

std::string PeerAddressOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  std::string number = NumberOf(address, size);
  // A dual-stack socket reports IPv4 addresses in this form.
  constexpr std::string_view kMapped = "::ffff:";
  if (number.starts_with(kMapped) && number.find('.') != std::string::npos) number.erase(0, kMapped.size());
  return number;
}

// Connecting a datagram socket sends nothing; it only selects the route.
std::string AddressTowards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  std::string address;
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  char text[NI_MAXHOST] = "";
  const bool is_known =
      socket >= 0 && ::connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
      ::getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0;
  if (is_known) address = text;
  if (socket >= 0) ::close(socket);
  ::freeaddrinfo(found);
  return address;
}

}  // namespace divvy
