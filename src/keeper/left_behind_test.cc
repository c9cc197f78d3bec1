// Tenants' folders: what users put there, and what a killed keeper leaves.
#include <gtest/gtest.h>

#include "keeper/keeper_test_world.h"

namespace divvy::keeper {
namespace left_behind_test {

std::set<std::string> NamesIn(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.insert(entry.path().filename());
  return names;
}
bool IsAnyOf(const std::string& directory, const std::string& prefix) {
  for (const std::string& name : NamesIn(directory)) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

TEST(KeeperLeftovers, ATreeOfAnyDepthIsRemoved) {
  KeeperWorld world(1);
  const std::string folder = world.Add(KeeperWorld::Terms(7, 0, 0.5, kGiB, kGiB)).folder;
  // Deeper than the descriptor limit, and longer than the maximum path.
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit few{64, files.rlim_max};
  int at = ::open(folder.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC);
  for (int depth = 0; depth < 3'000; ++depth) {
    ASSERT_EQ(::mkdirat(at, "deeper", 0700), 0);
    const int next = ::openat(at, "deeper", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    ASSERT_GE(next, 0);
    ::close(std::exchange(at, next));
  }
  ::close(at);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(world.Command(7, "remove"), "");
  EXPECT_TRUE(Eventually([&] { return !IsAnyOf(world.directory, "7.1"); }, 120s));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
}

TEST(KeeperLeftovers, FoldersWithoutARecordAreRemovedAtStart) {
  KeeperWorld world(1);
  const std::string folder = world.Add(KeeperWorld::Terms(7, 0, 0.5, kGiB, kGiB)).folder;
  world.Kill();
  for (const char* name : {"/8.1", "/9.2.gone", "/9.2.gone.3", "/10.1.new", "/mine"}) {
    std::filesystem::create_directories(world.directory + name + "/deeper");
    std::ofstream(world.directory + name + "/deeper/file") << "x";
  }
  world.Start();
  EXPECT_TRUE(Eventually([&] {
    return NamesIn(world.directory) ==
           std::set<std::string>{"7.1", "7.1.tenant", "helpers", "keeper.sock", "node.keeper", "mine"};
  })) << testing::PrintToString(NamesIn(world.directory));
}

TEST(KeeperLeftovers, ATenantWhoseRemovalBeganIsNotRestored) {
  KeeperWorld world(1);
  const std::string folder = world.Add(KeeperWorld::Terms(7, 0, 0.5, kGiB, kGiB)).folder;
  world.Kill();
  std::filesystem::rename(folder, folder + ".gone.0");
  world.Start();
  EXPECT_TRUE(Eventually([&] { return !IsAnyOf(world.directory, "7.1"); }))
      << testing::PrintToString(NamesIn(world.directory));
}

TEST(KeeperLeftovers, AFileInPlaceOfTheSocketIsMovedAside) {
  KeeperWorld world(1);
  const std::string folder = world.Add(KeeperWorld::Terms(7, 0, 0.5, 4 * kGiB, 4 * kGiB)).folder;
  FakeProcess process(folder);
  ASSERT_TRUE(Eventually([&] { return process.is_up(); }));
  ASSERT_TRUE(process.Allocate(3 * kGiB));
  process.stays_away = true;
  world.Kill();
  ASSERT_EQ(::unlink((folder + "/link").c_str()), 0);
  std::filesystem::create_directories(folder + "/link/mine");
  world.Start();
  process.stays_away = false;
  EXPECT_EQ(world.node->StateOf(7).trouble, "");
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(7).processes == 1; }));
  EXPECT_EQ(world.node->StateOf(7).shares.at(0).used, Bytes(3 * kGiB));
  EXPECT_TRUE(process.Allocate(kGiB));
}

TEST(KeeperLeftovers, AnUnreadableRecordIsReported) {
  KeeperWorld world(1);
  world.Add(KeeperWorld::Terms(7, 0, 0.5, 4 * kGiB, 4 * kGiB));
  world.Kill();
  std::ofstream(world.directory + "/7.1.tenant", std::ios::trunc) << "no record";
  world.Start();
  world.Add(KeeperWorld::Terms(7, 0, 0.5, 4 * kGiB, 4 * kGiB));
  EXPECT_NE(world.node->StateOf(7).trouble.find("7.1.tenant"), std::string::npos) << world.node->StateOf(7).trouble;
}

}  // namespace left_behind_test
}  // namespace divvy::keeper
