#include "platform/records/gang_files.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "platform/os/process_tree.h"
#include "platform/records/step_list_file.h"

namespace divvy {
namespace gang_files_test {

class GangFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "divvy-gang-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_TRUE(MakeStepFolder(folder_, ::geteuid(), ::getegid()));
    steps_ = StepListPath(folder_, ::geteuid(), 17);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static GangFile Two() {
    GangFile gang{17, 2, 0, {}};
    gang.members.push_back({"alpha", {"10.0.0.1", 4001}, {}, 2});
    gang.members.push_back({"beta", {"10.0.0.2", 4002}, {}, 1});
    return gang;
  }
  mode_t Mode(const std::string& end) const {
    struct stat about {};
    return ::lstat((steps_ + end).c_str(), &about) == 0 ? about.st_mode & 0777 : 0;
  }
  std::string folder_;
  std::string steps_;
};

TEST_F(GangFilesTest, TheKeyIsReadableByItsUserOnly) {
  EXPECT_EQ(ReadGangKey(steps_).error().code, ErrorCode::kNotFound);
  const std::string key(64, 'c');
  ASSERT_TRUE(WriteGangKey(steps_, key));
  EXPECT_EQ(Mode(".key"), 0600u);
  EXPECT_EQ(ReadGangKey(steps_), key);
  ASSERT_EQ(::chmod(GangKeyPath(steps_).c_str(), 0640), 0);
  EXPECT_FALSE(ReadGangKey(steps_));
  EXPECT_FALSE(WriteGangKey(steps_, "short"));
}

TEST_F(GangFilesTest, TheNodeListIsReadableOnceTheGangStarts) {
  EXPECT_EQ(ReadGangFile(steps_).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(StageGo(steps_, GangFileText(Two()), ::geteuid(), ::getegid()));
  EXPECT_EQ(ReadGangFile(steps_).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(SayGo(steps_));
  EXPECT_EQ(ReadGangFile(steps_), Two());
  EXPECT_EQ(Mode(".go"), 0600u);
  RemoveAllocationFiles(steps_);
  EXPECT_EQ(ReadGangFile(steps_).error().code, ErrorCode::kNotFound);
}

TEST_F(GangFilesTest, AreRemovedWithTheStepList) {
  ASSERT_TRUE(WriteGangKey(steps_, std::string(64, 'c')));
  ASSERT_TRUE(WriteMpiFiles(steps_, Two(), "/usr/bin/divvy"));
  ASSERT_TRUE(WriteMpiFiles(steps_, Two(), "/usr/bin/divvy")) << "twice does no harm";
  EXPECT_EQ(std::filesystem::read_symlink(steps_ + ".rsh"), "/usr/bin/divvy");
  RemoveStepList(folder_, ::geteuid(), 17);
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(steps_).parent_path()));
}

TEST_F(GangFilesTest, TheStepProcessReportsItsPort) {
  const auto main = [](const std::vector<std::string>& all) {
    const bool is_right = all == std::vector<std::string>{"--listen=127.0.0.1:0", "--stay", "/steps"};
    static_cast<void>(!::write(1, is_right ? "4711\n" : "1\n", is_right ? 5 : 2));
    return ::pause();
  };
  const auto started = StartGangSteps(main, "/steps", "127.0.0.1:0", std::chrono::seconds(20));
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(started->port, 4711);
  EXPECT_FALSE(IsChild(started->pid)) << "what we become would have to reap it";
  EXPECT_EQ(::getpgid(started->pid), started->pid);
  std::ifstream line("/proc/" + std::to_string(started->pid) + "/cmdline");
  std::string shown;
  std::getline(line, shown, '\0');
  EXPECT_EQ(shown, "divvy internal-steps /steps") << "not ours";
  ::kill(started->pid, SIGKILL);
}

TEST_F(GangFilesTest, AFailureToListenIsReported) {
  const auto why = [&](const GangStepsMain& main) {
    const auto started = StartGangSteps(main, steps_, "127.0.0.1:0", std::chrono::milliseconds(200));
    return started ? "listens" : started.error().message.substr(started.error().message.find(": ") + 2);
  };
  EXPECT_EQ(why([](const auto&) {
              static_cast<void>(!::write(2, "it is taken\n", 12));
              return 1;
            }),
            "it is taken");
  EXPECT_EQ(why([](const auto&) { return ::pause(); }), "it did not report in time");
}

}  // namespace gang_files_test
}  // namespace divvy
