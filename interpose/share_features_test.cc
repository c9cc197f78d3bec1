// One program for each feature of the driver API: the same results with and without the library, and no way past the
// limit.
#include <gtest/gtest.h>

#include "share_test_world.h"

namespace divvy::interpose {
namespace share_features_test {

class Feature : public ::testing::TestWithParam<const char*> {};

TEST_P(Feature, HasTheSameResultsWithAndWithoutTheLibrary) {
  const World world("2xA100-40GB");
  FakeKeeper keeper(world, world.memory());
  const std::string command = std::string("feature ") + GetParam();
  std::string expected;
  for (const bool is_plain : {false, true}) {
    Program::Options options;
    if (is_plain) options.preload = "";
    Program program(world, options);
    ASSERT_EQ(program.Do("init"), "0");
    const std::string answer = program.Do(command);
    EXPECT_TRUE(answer.ends_with(" wrong=0")) << answer;
    if (expected.empty()) expected = answer;
    EXPECT_EQ(answer, expected) << "outside of a share";
  }
  for (const char* memory : {"", "plain"}) {
    Program::Options options;
    options.share = keeper.Folder();
    options.memory = memory;
    Program program(world, options);
    ASSERT_EQ(program.Do("init"), "0");
    EXPECT_EQ(program.Do(command), expected) << "in a share, with memory '" << memory << "'";
    EXPECT_TRUE(Eventually([&] { return keeper.Used(0) + keeper.Used(1) == 0; })) << "it has freed all of its memory";
    EXPECT_EQ(program.Errors(), "");
    program.Kill();
  }
}

INSTANTIATE_TEST_SUITE_P(Features, Feature,
                         ::testing::Values("vmm", "pools", "graphs", "priorities", "events", "devices", "contexts",
                                           "green", "modules", "info"),
                         [](const auto& feature) { return std::string(feature.param); });

// Also the empty name, which the CUDA runtime requests.
TEST(FeatureLookup, EveryNameThatProgramsRequestIsFoundAsWithoutTheLibrary) {
  const World world;
  FakeKeeper keeper(world, world.memory());
  Program::Options plain;
  plain.preload = "";
  Program::Options shared;
  shared.share = keeper.Folder();
  std::string expected;
  for (const Program::Options& options : {plain, shared}) {
    Program program(world, options);
    ASSERT_EQ(program.Do("init"), "0");
    const std::string answer = program.Do(std::string("request ") + DIVVY_REQUESTED_NAMES);
    if (expected.empty()) expected = answer;
    EXPECT_EQ(answer, expected);
    EXPECT_GT(Numbers(answer).at(0), 300U) << "found";
    EXPECT_GT(Numbers(answer).at(1), 100U) << "unknown to the emulated driver";
  }
}

struct Way {
  const char* name;
  std::vector<const char*> before;  // Commands before the allocations.
  const char* kind;                 // Of memory; see share_tenant_memory.cc.
  unsigned device = 0;
};

class FeatureLimit : public ::testing::TestWithParam<Way> {};

TEST_P(FeatureLimit, Holds) {
  constexpr std::uint64_t kCeiling = 256 * kMiB;
  const World world("2xA100-40GB");
  FakeKeeper keeper(world, kCeiling);
  Program program(world, keeper);
  ASSERT_EQ(program.Do("init"), "0");
  for (const char* command : GetParam().before) {
    const std::string answer = program.Do(command);
    EXPECT_TRUE(answer == "0" || answer.ends_with(" wrong=0")) << command << ": " << answer;
  }
  const auto numbers = Numbers(program.Do(std::string("hog ") + GetParam().kind + " 16M 100"));
  ASSERT_EQ(numbers.size(), 2U);
  EXPECT_EQ(numbers[0], 2U) << "CUDA_ERROR_OUT_OF_MEMORY";
  EXPECT_LE(numbers[1], 16U);
  EXPECT_GE(numbers[1], 12U) << "it gets its share";
  EXPECT_LE(keeper.Used(GetParam().device), kCeiling);
  EXPECT_GE(keeper.Used(GetParam().device), numbers[1] * 16 * kMiB);
  EXPECT_EQ(keeper.Used(1 - GetParam().device), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Features, FeatureLimit,
    ::testing::Values(Way{"vmm", {"feature vmm"}, "mapping"}, Way{"exportable", {"feature vmm"}, "exportable"},
                      Way{"import", {}, "import"}, Way{"pool", {"feature pools"}, "pool"},
                      Way{"async", {"feature priorities"}, "async"}, Way{"kept", {}, "kept"},
                      Way{"graph", {"feature graphs"}, "graph"}, Way{"array", {}, "array"},
                      Way{"managed", {}, "managed"}, Way{"second_device", {"feature events", "device 1"}, "plain", 1},
                      Way{"pool_of_second_device", {"feature devices"}, "pool1", 1},
                      Way{"context", {"feature contexts", "context"}, "plain"},
                      Way{"green_context", {"feature green", "green"}, "plain"},
                      Way{"module", {"feature modules"}, "plain"}, Way{"info", {"feature info"}, "plain"}),
    [](const auto& way) { return std::string(way.param.name); });

TEST(FeatureInfo, AProgramStartedByExecIsShownTheLimit) {
  const World world;
  FakeKeeper keeper(world, 256 * kMiB);
  Program program(world, keeper);
  ASSERT_EQ(program.Do("init"), "0");
  ASSERT_EQ(program.Do("alloc a plain 64M"), "0");
  program.Tell("exec");
  ASSERT_TRUE(Eventually([&] { return keeper.Used() == 0; }));
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(Numbers(program.Do("info")), (std::vector<std::uint64_t>{256 * kMiB, 256 * kMiB, 256 * kMiB}));
}

// Memory shared by CUDA IPC: the same answers with and without the library, and counted in both processes.
TEST(FeatureIpc, HasTheSameResultsWithAndWithoutTheLibrary) {
  const World world;
  FakeKeeper keeper(world, 256 * kMiB);
  std::vector<std::string> answers[2];
  for (const bool is_shared : {false, true}) {
    Program::Options options;
    if (is_shared) {
      options.share = keeper.Folder();
      options.memory = "plain";
    } else {
      options.preload = "";
    }
    Program owner(world, options);
    Program guest(world, options);
    const auto note = [&](const std::string& answer) { answers[is_shared ? 1 : 0].push_back(answer); };
    note(owner.Do("init"));
    note(guest.Do("init"));
    note(owner.Do("alloc a plain 64M"));
    note(owner.Do("fill a 4"));
    const std::string handle = owner.Do("ipc-get a");
    note(handle.substr(0, 2));
    note(guest.Do("ipc-open b 64M " + handle.substr(2)));
    note(guest.Do("check b 4"));
    note(guest.Do("fill b 5"));
    note(owner.Do("check a 5"));
    if (is_shared) {
      EXPECT_EQ(keeper.Used(), 128 * kMiB);
      EXPECT_EQ(guest.Do("hog plain 16M 100"), "2 8") << "the open memory counts against the limit";
    }
    note(guest.Do("free b"));
    note(owner.Do("free a"));
  }
  EXPECT_EQ(answers[0], answers[1]);
  EXPECT_EQ(answers[0], (std::vector<std::string>{"0", "0", "0", "0", "0 ", "0", "0", "0", "0", "0", "0"}));
}

// CUDA 13.1 gave cuMulticastBindMem another parameter. The hook of the older form would shift all arguments.
TEST(FeatureMulticast, ANewerFormIsCalledWithAllItsArguments) {
  const World world;
  FakeKeeper keeper(world, 256 * kMiB);
  keeper.page().devices[0].uuid[0] = 0;  // That driver's device has no UUID.
  Program::Options options;
  options.share = keeper.Folder();
  options.driver = DIVVY_IDLE_DRIVER_FOLDER;
  Program program(world, options);
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("multicast"), "0");
  EXPECT_EQ(keeper.page().processes[0].flags & share::kPeers, share::kPeers);
}

}  // namespace share_features_test
}  // namespace divvy::interpose
