#include "daemon/daemon_flags.h"

#include <gtest/gtest.h>

namespace divvy {
namespace daemon_flags_test {

TEST(DaemonFlagsTest, AreReadInAnyOrder) {
  const auto flags = ReadDaemonFlags({"--listen", "0.0.0.0:1", "--detached", "--emulate", "8xH100-80GB"});
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->listen, "0.0.0.0:1");
  EXPECT_EQ(flags->emulate, "8xH100-80GB");
  EXPECT_EQ(flags->gpus, "");
  EXPECT_TRUE(flags->is_detached);
}

TEST(DaemonFlagsTest, RefusesUnknownFlagsAndAMissingValue) {
  for (const char* word : {"--gpu", "8", "--gpus", ""}) {
    const auto flags = ReadDaemonFlags({"--detached", word});
    ASSERT_FALSE(flags);
    EXPECT_EQ(flags.error().message, "unknown daemon option '" + std::string(word) + "'");
  }
}

}  // namespace daemon_flags_test
}  // namespace divvy
