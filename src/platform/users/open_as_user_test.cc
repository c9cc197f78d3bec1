#include "platform/users/open_as_user.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

namespace divvy {
namespace {

constexpr uid_t kUnprivileged = 65534;

class OpenAsOther : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    std::string folder = testing::TempDir() + "open_as_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, mode_t mode) const {
    std::ofstream(Path(name)) << "text";
    ASSERT_EQ(::chmod(Path(name).c_str(), mode), 0);
  }

  std::string folder_;
  std::vector<gid_t> groups_;
  FileOwner nobody_ = {.uid = kUnprivileged, .gid = kUnprivileged, .groups = &groups_};
};

TEST_F(OpenAsOther, OpensWhatTheOwnerMayOpenAndNothingElse) {
  Write("public", 0644);
  Write("private", 0600);
  EXPECT_TRUE(OpenAs(nobody_, Path("public"), O_RDONLY | O_CLOEXEC).is_open());
  EXPECT_FALSE(OpenAs(nobody_, Path("public"), O_WRONLY | O_CLOEXEC).is_open());
  EXPECT_EQ(errno, EACCES);
  EXPECT_FALSE(OpenAs(nobody_, Path("private"), O_RDONLY | O_CLOEXEC).is_open());
  EXPECT_EQ(errno, EACCES);
  EXPECT_FALSE(OpenAs(nobody_, Path("absent"), O_RDONLY | O_CLOEXEC).is_open());
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(OpenAsOther, OpensWhatAGroupOfTheOwnerMayOpen) {
  Write("shared", 0640);
  groups_ = {4711};
  ASSERT_EQ(::chown(Path("shared").c_str(), 0, 4711), 0);
  EXPECT_TRUE(OpenAs(nobody_, Path("shared"), O_RDONLY | O_CLOEXEC).is_open());
  groups_ = {4712};
  EXPECT_FALSE(OpenAs(nobody_, Path("shared"), O_RDONLY | O_CLOEXEC).is_open());
}

TEST_F(OpenAsOther, CreatesFilesThatBelongToTheOwner) {
  const Descriptor file = OpenAs(nobody_, Path("made"), O_WRONLY | O_CREAT | O_CLOEXEC);
  struct stat about = {};
  ASSERT_TRUE(file.is_open());
  ASSERT_EQ(::fstat(file.get(), &about), 0);
  EXPECT_EQ(about.st_uid, kUnprivileged);
  EXPECT_EQ(about.st_gid, kUnprivileged);
}

TEST_F(OpenAsOther, OpensNoMagicLinkAndNoKernelFile) {
  EXPECT_FALSE(OpenAs(nobody_, "/proc/self/root/etc/passwd", O_RDONLY | O_CLOEXEC).is_open());
  EXPECT_EQ(errno, ELOOP);
  for (const char* path : {"/proc/self/maps", "/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"}) {
    if (::access(path, F_OK) != 0) continue;
    EXPECT_FALSE(OpenAs(nobody_, path, O_RDONLY | O_CLOEXEC).is_open()) << path;
    EXPECT_EQ(errno, EACCES) << path;
  }
}

TEST_F(OpenAsOther, ChildHasNoCapabilitiesAndTakesNoSignalsOfTheOwner) {
  std::array<char, 4096> text = {};
  ASSERT_TRUE(RunAs(nobody_, [&] {
    const Descriptor status(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    EXPECT_GT(::read(status.get(), text.data(), text.size() - 1), 0);
  }));
  const std::string status(text.data());
  EXPECT_NE(status.find("\nCapPrm:\t0000000000000000\n"), std::string::npos) << status;
  EXPECT_NE(status.find("\nCapEff:\t0000000000000000\n"), std::string::npos) << status;
  // Order: real, effective, saved, file system. A user may signal a process whose real or saved uid is the user's.
  EXPECT_NE(status.find("\nUid:\t0\t65534\t0\t65534\n"), std::string::npos) << status;
  EXPECT_NE(status.find("\nGid:\t65534\t65534\t65534\t65534\n"), std::string::npos) << status;
}

TEST_F(OpenAsOther, OtherThreadsKeepTheirRights) {
  Write("private", 0600);
  const auto look = [&] {
    for (int i = 0; i < 200; ++i) {
      EXPECT_FALSE(OpenAs(nobody_, Path("private"), O_RDONLY | O_CLOEXEC).is_open());
      EXPECT_TRUE(OpenAs({}, Path("private"), O_RDONLY | O_CLOEXEC).is_open());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(look);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(::geteuid(), 0u);
}

TEST(RunAs, WithoutAnOwnerTheWorkRunsInThisProcess) {
  pid_t process = 0;
  EXPECT_TRUE(RunAs({}, [&] { process = ::getpid(); }));
  EXPECT_EQ(process, ::getpid());
}

}  // namespace
}  // namespace divvy
