#include "platform/users/passed_stream.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "platform/os/unix_socket.h"

namespace divvy {
namespace {

constexpr std::array<StreamUse, 3> kUses = {StreamUse::kHandedOn, StreamUse::kRead, StreamUse::kWritten};

bool IsAccepted(const Descriptor& fd, StreamUse use, std::int64_t caller = ::geteuid()) {
  return CheckPassedStream(fd.get(), use, caller, "stream").has_value();
}

void ExpectAllUses(const Descriptor& fd, bool is_accepted) {
  ASSERT_TRUE(fd.is_open());
  for (const StreamUse use : kUses) EXPECT_EQ(IsAccepted(fd, use), is_accepted) << static_cast<int>(use);
}

TEST(PassedStream, AcceptsTerminalsFilesNullAndStreamSockets) {
  ExpectAllUses(Descriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), true);
  ExpectAllUses(Descriptor(::memfd_create("file", MFD_CLOEXEC)), true);
  ExpectAllUses(Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)), true);
  ExpectAllUses(MakeSocketPair().first, true);
  ExpectAllUses(Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), true);
}

TEST(PassedStream, AcceptsAPipeForItsDirection) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor read(ends[0]), written(ends[1]);
  EXPECT_TRUE(IsAccepted(read, StreamUse::kRead));
  EXPECT_FALSE(IsAccepted(read, StreamUse::kWritten));
  EXPECT_TRUE(IsAccepted(written, StreamUse::kWritten));
  EXPECT_FALSE(IsAccepted(written, StreamUse::kRead));
  // nohup leaves standard input like this; the job's process finds out by itself.
  EXPECT_TRUE(IsAccepted(written, StreamUse::kHandedOn));
}

TEST(PassedStream, RefusesOtherSocketsCountersPathsDevicesAndKernelFiles) {
  ExpectAllUses(Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), false);
  ExpectAllUses(Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)), false);
  ExpectAllUses(Descriptor(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), false);
  ExpectAllUses(Descriptor(::eventfd(0, EFD_CLOEXEC)), false);
  ExpectAllUses(Descriptor(::open("/etc/passwd", O_PATH | O_CLOEXEC)), false);
  ExpectAllUses(Descriptor(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), false);
  ExpectAllUses(Descriptor(::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC)), false);
}

TEST(PassedStream, RefusesToUseASocketWhoseOtherEndIsAnotherUsers) {
  const Descriptor ours = MakeSocketPair().first;
  const std::int64_t other = std::int64_t{::geteuid()} + 1;
  EXPECT_TRUE(IsAccepted(ours, StreamUse::kHandedOn, other));
  EXPECT_FALSE(IsAccepted(ours, StreamUse::kRead, other));
  EXPECT_FALSE(IsAccepted(ours, StreamUse::kWritten, other));
  EXPECT_TRUE(IsAccepted(ours, StreamUse::kWritten, 0));
  // An unconnected socket could be connected to any peer later.
  const Descriptor fresh(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(IsAccepted(fresh, StreamUse::kWritten, other));
}

}  // namespace
}  // namespace divvy
