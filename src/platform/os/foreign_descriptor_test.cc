#include "platform/os/foreign_descriptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "platform/os/unix_socket.h"

namespace divvy {
namespace foreign_descriptor_test {

/// A TCP connection with bytes that its peer does not read. close(2) of `ours` would wait for a minute.
struct Lingering {
  Lingering() {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int small = 4096;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    ours.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(ours.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    theirs.Reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger waits = {.l_onoff = 1, .l_linger = 60};
    ::setsockopt(ours.get(), SOL_SOCKET, SO_LINGER, &waits, sizeof waits);
    const std::string bytes(65536, 'x');
    while (::send(ours.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }
  ForeignDescriptor ours;
  Descriptor theirs;
};

class ClosingDescriptor : public ::testing::Test {
 protected:
  ~ClosingDescriptor() override { EXPECT_LT(std::chrono::steady_clock::now() - begun_, std::chrono::seconds(20)); }
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

TEST_F(ClosingDescriptor, DoesNotWaitForTheLastCopyOfALingeringSocket) {
  for (int i = 0; i < 3; ++i) {
    Lingering socket;
    const int number = socket.ours.get();
    socket.ours.Reset();
    EXPECT_EQ(::fcntl(number, F_GETFD), -1);
    // The connection is really closed: the peer reads the sent bytes, then the end of the stream.
    char bytes[65536];
    ssize_t got = 0;
    while ((got = ::recv(socket.theirs.get(), bytes, sizeof bytes, 0)) > 0) {
    }
    EXPECT_EQ(got, 0);
  }
}

TEST_F(ClosingDescriptor, DoesNotWaitInAChildThatClosedAllInheritedDescriptors) {
  Lingering before;
  before.ours.Reset();
  Lingering socket;
  const pid_t child = ::fork();
  if (child == 0) {
    const int kept = ::fcntl(socket.ours.get(), F_DUPFD_CLOEXEC, 200);
    for (int fd = 3; fd < 200; ++fd) ::close(fd);
    // The test's own sockets take these descriptor numbers now.
    int own[2] = {};
    while (own[1] < 100) {
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, own) != 0) ::_exit(2);
    }
    CloseForeign(kept);
    char byte = 0;
    for (int fd = 3; fd <= own[1]; ++fd) {
      if (::recv(fd, &byte, 1, MSG_DONTWAIT) > 0) ::_exit(1);
    }
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "what is the closer's came to something else";
}

TEST_F(ClosingDescriptor, DoesNotWaitForADescriptorThatNoProcessReceived) {
  for (const bool is_read : {true, false}) {
    for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
      Lingering socket;
      int ends[2];
      ASSERT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
      const Descriptor sender(ends[0]);
      ASSERT_EQ(SendWithDescriptors(sender.get(), "word", {{socket.ours.get()}}, 0), 4);
      socket.ours.Reset();
      char bytes[2];
      if (is_read) {
        EXPECT_EQ(ReceiveForeign(ends[1], bytes, sizeof bytes, 0).size, 2);
      }
      CloseAccepted(ends[1]);
      EXPECT_LT(::send(sender.get(), "more", 4, MSG_NOSIGNAL), 0);
    }
  }
}

TEST(ForeignDescriptor, ReceivedDescriptorsKeepTheirOrder) {
  auto [ours, theirs] = MakeSocketPair();
  ASSERT_EQ(SendWithDescriptors(ours.get(), "ab", {{0, 1, 2}}, 0), 2);
  char bytes[8];
  ForeignMessage got = ReceiveForeign(theirs.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  EXPECT_EQ(got.size, 2);
  ASSERT_EQ(got.descriptors.size(), 3U);
  for (ForeignDescriptor& one : got.descriptors) {
    const int fd = one.get();
    EXPECT_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
    one.Reset();
    EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
  }
  EXPECT_LT(ReceiveForeign(theirs.get(), bytes, sizeof bytes, MSG_DONTWAIT).size, 0);
  EXPECT_EQ(errno, EAGAIN);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "cd", 2), 2);
  EXPECT_EQ(ReceiveForeign(ends[0], bytes, sizeof bytes, 0).size, 2);
  for (const int fd : ends) CloseForeign(fd);
}

}  // namespace foreign_descriptor_test
}  // namespace divvy
