// Only a tenant's own live processes may speak for it.
#include <gtest/gtest.h>

#include "keeper/keeper_test_world.h"

namespace divvy::keeper {
namespace stranger_test {

share::Message Hello() {
  share::Message hello{};
  hello.word = share::Word::kHello;
  hello.process = share::kNoSlot;
  return hello;
}

/// Returns 1 for welcome, 0 for hung up, -1 for neither in time.
int AnswerOn(int link, int timeout_ms = 4000) {
  pollfd watched{link, POLLIN, 0};
  if (::poll(&watched, 1, timeout_ms) <= 0) return -1;
  share::Message message{};
  return ::recv(link, &message, sizeof message, 0) == sizeof message && message.word == share::Word::kWelcome ? 1 : 0;
}

struct OneTenant : KeeperWorld {
  OneTenant() : KeeperWorld(1) { folder = Add(Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder; }
  sockaddr_un Address() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", folder.c_str(), share::kLinkSocket);
    return address;
  }
  std::string folder;
};

TEST(UntrustedPeer, AConnectionOfAnEndedProcessIsRefused) {
  OneTenant world;
  const Descriptor link(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = world.Address();
  // By the time of the hello, the pid of the process that connected may have been reused.
  ASSERT_EQ(InChild([&] {
              return ::connect(link.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : 1;
            }),
            0);
  const share::Message hello = Hello();
  ::send(link.get(), &hello, sizeof hello, MSG_NOSIGNAL);
  EXPECT_EQ(AnswerOn(link.get()), 0);
  EXPECT_EQ(world.node->StateOf(1).processes, 0);
}

TEST(UntrustedPeer, AConnectionOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to become another user";
  OneTenant world;
  // Open the paths as far as the owner could.
  ASSERT_EQ(::chmod(world.directory.c_str(), 0711), 0);
  ASSERT_EQ(::chmod(world.folder.c_str(), 0777), 0);
  ASSERT_EQ(::chmod((world.folder + "/link").c_str(), 0777), 0);
  const sockaddr_un address = world.Address();
  EXPECT_EQ(InChild([&] {
              if (::setuid(65534) != 0) return 2;
              const int link = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
              if (::connect(link, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 3;
              const share::Message hello = Hello();
              ::send(link, &hello, sizeof hello, MSG_NOSIGNAL);
              return AnswerOn(link) == 0 ? 0 : 4;
            }),
            0);
}

TEST(UntrustedPeer, ASilentConnectionTimesOut) {
  OneTenant world;
  const Descriptor link(Dial(world.folder + "/link", SOCK_SEQPACKET));
  ASSERT_TRUE(link.is_open());
  EXPECT_EQ(AnswerOn(link.get(), 20'000), 0);
}

}  // namespace stranger_test
}  // namespace divvy::keeper
