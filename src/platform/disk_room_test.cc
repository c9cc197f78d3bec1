#include "platform/disk_room.h"

#include <gtest/gtest.h>

namespace divvy {
namespace {

TEST(DiskRoom, OnlyAFullDiskIsNamed) {
  EXPECT_EQ(FullDisk({"/", "/no/such/folder"}, false), "");
  EXPECT_EQ(FullDisk({}, true), "");
}

TEST(DiskRoom, WhatCountsNoBlocksSaysNothing) { EXPECT_EQ(FullDisk({"/sys", "/proc"}, false), ""); }

}  // namespace
}  // namespace divvy
