#include "platform/os/disk_room.h"

#include <gtest/gtest.h>

namespace divvy {
namespace disk_room_test {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(DiskRoom, IsFullByBytesOrByFiles) {
  EXPECT_EQ(Fullness({.bytes = 2 * kMiB, .files = 64}, "/x", false), "");
  EXPECT_EQ(Fullness({.bytes = 2 * kMiB - 1, .files = 64}, "/x", false), "its disk is full: 2047 KiB free under /x");
  EXPECT_EQ(Fullness({.bytes = 2 * kMiB, .files = 63}, "/x", false),
            "its disk is full: only 63 more files fit under /x");
  EXPECT_EQ(Fullness({.bytes = 2 * kMiB, .files = 1}, "/x", false), "its disk is full: only 1 more file fits under /x");
  EXPECT_EQ(Fullness({.bytes = 2 * kMiB, .files = -1}, "/x", false), "");
}

TEST(DiskRoom, ClearsAtTwiceTheRequiredRoom) {
  EXPECT_NE(Fullness({.bytes = 3 * kMiB, .files = 1000}, "/x", true), "");
  EXPECT_NE(Fullness({.bytes = 9 * kMiB, .files = 127}, "/x", true), "");
  EXPECT_EQ(Fullness({.bytes = 4 * kMiB, .files = 128}, "/x", true), "");
}

TEST(DiskRoom, AFileSystemWithoutBlockCountsIsNotFull) {
  // These file systems count no blocks, or the folder does not exist.
  EXPECT_EQ(FullDisk({"/sys", "/proc", "/no/such/folder"}, false), "");
}

}  // namespace disk_room_test
}  // namespace divvy
