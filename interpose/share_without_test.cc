// Without sharing, a program cannot notice the library.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "share_test_world.h"

namespace divvy::interpose {
namespace share_without_test {

TEST(WithoutShare, ProgramsWithoutCudaAreUnaffected) {
  const World world;
  FakeKeeper keeper(world, 64 * kMiB);
  int status = -1;
  EXPECT_EQ(RunPreloaded(world, {"/bin/sh", "-c", "echo one | cat; ls /dev/null"}, keeper.Folder(), status),
            "one\n/dev/null\n");
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(keeper.Has(share::Word::kHello));
}

TEST(WithoutShare, NothingIsCountedOrLogged) {
  const World world;
  FakeKeeper keeper(world, 64 * kMiB);
  for (const char* entry_point : {"dlsym", "default", "proc", "direct"}) {
    Program program(world, Program::Options{});
    ASSERT_EQ(program.Do(std::string("init ") + entry_point), "0");
    EXPECT_EQ(program.Do("alloc a plain 100M"), "0");
    EXPECT_EQ(program.Do("fill a 1"), "0");
    EXPECT_EQ(program.Do("launch 1"), "0");
    EXPECT_EQ(program.Do("check a 1"), "0");
    EXPECT_EQ(Numbers(program.Do("info")).at(1), world.memory());
    EXPECT_EQ(program.Do("free a"), "0");
    EXPECT_EQ(program.Errors(), "");
  }
  EXPECT_FALSE(keeper.Has(share::Word::kHello));
}

/// Expects that the program runs as without a share and reports why in one line.
void ExpectOneLine(const World& world, const std::string& folder, const std::string& expected) {
  Program program(world, Program::Options{folder});
  ASSERT_EQ(program.Do("init"), "0");
  EXPECT_EQ(program.Do("alloc a plain 100M"), "0");
  EXPECT_EQ(program.Do("launch 1"), "0");
  EXPECT_EQ(program.Do("free a"), "0");
  const std::string errors = program.Errors();
  EXPECT_NE(errors.find(expected), std::string::npos) << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
}

TEST(WithoutShare, AMissingFolderIsReportedOnce) {
  const World world;
  ExpectOneLine(world, world.folder() + "/none", "cannot open ");
}

TEST(WithoutShare, APageOfAnotherVersionIsReportedOnce) {
  const World world;
  FakeKeeper keeper(world, 64 * kMiB);
  keeper.page().layout = share::kPageLayout + 1;
  ExpectOneLine(world, keeper.Folder(), "is from another version of divvy");
}

TEST(WithoutShare, AFileThatIsNotAPageIsReportedOnce) {
  const World world;
  FakeKeeper keeper(world, 64 * kMiB);
  keeper.page().magic = 0;
  ExpectOneLine(world, keeper.Folder(), "the shared memory page of the job is invalid");
}

TEST(WithoutShare, AShortFileIsReportedOnce) {
  const World world;
  FakeKeeper keeper(world, 64 * kMiB);
  std::filesystem::create_directory(world.folder() + "/short");
  std::ofstream(world.folder() + "/short/page") << "PYVD";
  ExpectOneLine(world, world.folder() + "/short", "cannot be mapped");
}

TEST(WithoutShare, AMissingSocketIsReportedOnce) {
  const World world;
  FakeKeeper keeper(world, 64 * kMiB);
  keeper.Kill();
  std::filesystem::remove(keeper.Folder() + "/link");
  ExpectOneLine(world, keeper.Folder(), "no keeper answers at DIVVY_SHARE");
}

}  // namespace share_without_test
}  // namespace divvy::interpose
