#include "daemon/services/service_probe.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

/// Listens at 127.0.0.1 (IPv4) or [::] on `port`; 0: any.
Descriptor Listen(int family, std::uint16_t port, bool listens = true) {
  Descriptor end(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    auto* four = reinterpret_cast<sockaddr_in*>(&address);
    four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    four->sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = htons(port);
    const int on = 1;
    ::setsockopt(end.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  if (::bind(end.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      (listens && ::listen(end.get(), 1) != 0))
    end.Reset();
  return end;
}
std::uint16_t PortOf(const Descriptor& end) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(end.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

TEST(ServiceProbe, FindsWhoseProcessListens) {
  Descriptor end = Listen(AF_INET, 0);
  ASSERT_TRUE(end.is_open());
  const std::uint16_t port = PortOf(end);
  EXPECT_EQ(ListenerAtPort(port), std::int64_t{::getuid()});
  end.Reset();
  EXPECT_EQ(ListenerAtPort(port), -1) << "nobody listens";
  end = Listen(AF_INET, port, false);
  EXPECT_EQ(ListenerAtPort(port), -1) << "a port that is only bound gets no connections";
}

TEST(ServiceProbe, FindsAnotherUsersListenerAndNotOneOfAnotherAddress) {
  if (::getuid() != 0) GTEST_SKIP() << "root can make another user's socket";
  ASSERT_EQ(::seteuid(65534), 0);
  const Descriptor theirs = Listen(AF_INET, 0);
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(theirs.is_open());
  EXPECT_EQ(ListenerAtPort(PortOf(theirs)), 65534);

  const Descriptor own = Listen(AF_INET, 0);
  ASSERT_EQ(::seteuid(65534), 0);
  const Descriptor six = Listen(AF_INET6, PortOf(own));
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(ListenerAtPort(PortOf(own)), 0) << "connections to 127.0.0.1 are not those to [::1]";
}

TEST(ServiceProbe, AFreePortIsFree) {
  const std::int64_t port = KernelPort();
  ASSERT_GT(port, 1023);
  EXPECT_TRUE(IsPortFree(static_cast<std::uint16_t>(port)));
  const Descriptor end = Listen(AF_INET, static_cast<std::uint16_t>(port));
  EXPECT_FALSE(IsPortFree(static_cast<std::uint16_t>(port)));
}

}  // namespace
}  // namespace divvy
