#include "daemon/node/machine.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace divvy {
namespace machine_test {

TEST(LockFile, IsRefusedWhileItsOwnerLivesAndGrantedAfterwards) {
  std::string folder = ::testing::TempDir() + "lock-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/agent.lock";
  int locked[2];
  ASSERT_EQ(::pipe(locked), 0);
  const pid_t owner = ::fork();
  ASSERT_GE(owner, 0);
  if (owner == 0) {
    const auto lock = LockFile(path, "agent");
    static_cast<void>(!::write(locked[1], lock ? "y" : "n", 1));
    while (true) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(locked[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  const auto refused = LockFile(path, "agent");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kAlreadyExists);
  EXPECT_NE(refused.error().message.find("(pid " + std::to_string(owner) + ")"), std::string::npos);

  const auto beside = ForbidBeside(path, "agent");
  ASSERT_FALSE(beside);
  EXPECT_EQ(beside.error().message,
            "an agent (pid " + std::to_string(owner) + ") has " + folder +
                ", and its controller gives out this machine's GPUs; divvy agent --stop ends it");
  EXPECT_TRUE(ForbidBeside(folder + "/daemon.lock", "daemon")) << "none has ever been here";

  // At once, even if the process has not run since.
  ASSERT_EQ(::kill(owner, SIGKILL), 0);
  const auto had = LockFile(path, "agent");
  EXPECT_TRUE(had);
  EXPECT_EQ(::waitpid(owner, nullptr, 0), owner);
  if (had) ::close(*had);
  EXPECT_TRUE(ForbidBeside(path, "agent")) << "it has ended";
  ::close(locked[0]);
  ::close(locked[1]);
  ::unlink(path.c_str());
  ::rmdir(folder.c_str());
}

TEST(EmulatedGpus, AreLimitedToTheGpusThatANodeMayHave) {
  std::string folder = ::testing::TempDir() + "gpus-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  RuntimePaths places;
  places.state = folder;
  const auto refused = OpenGpus({"65xH100-80GB", {}, folder}, places);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "GPU description \"65xH100-80GB\", at character 1: the description has 65 GPUs, but a node can have at "
            "most 64: use 64 or fewer, and add nodes for more (divvy agent --emulate)");
  ::rmdir(folder.c_str());
}

TEST(NodeGpus, AStartWithoutEmulatedGpusNamesThoseOfTheLastStart) {
  std::string folder = testing::TempDir() + "divvy-machine-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  RuntimePaths places;
  places.state = folder;
  ASSERT_TRUE(OpenGpus({"2xT4", {}, folder}, places));
  const auto without = OpenGpus({"", {}, folder}, places);
  ASSERT_TRUE(without);
  if (without->probe == nullptr) {
    EXPECT_EQ(without->text,
              "the emulated GPUs of the last start are not in use; divvy up --emulate 2xT4 adds them again");
  }
  std::filesystem::remove_all(folder);
}

}  // namespace machine_test
}  // namespace divvy
