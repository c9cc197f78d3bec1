#include "daemon/storage/old_logs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "store/store_fake.h"

namespace divvy {
namespace old_logs_test {

/// A folder of logs and a store that knows their jobs; times count from "now".
class World {
 public:
  World() {
    std::string path = testing::TempDir() + "divvy-logs-XXXXXX";
    directory_ = ::mkdtemp(path.data());
  }
  ~World() { std::filesystem::remove_all(directory_); }

  void Job(std::uint64_t id, JobState state, Duration ended_ago, const std::string& output = "") {
    Batch batch;
    JobRecord record;
    record.id = record.spec_of = JobId(id);
    record.state = state;
    record.ended = IsFinal(state) ? now_ - ended_ago : kNoTime;
    JobSpec spec;
    spec.output = output;
    batch.inserts.push_back({record, std::make_shared<const JobSpec>(spec)});
    ASSERT_TRUE(store_->Commit({batch}));
  }
  void File(const std::string& name, Duration written_ago, unsigned mode = 0600) {
    const std::string path = directory_ + "/" + name;
    const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    ::fchmod(file, mode);
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>((now_ - written_ago).time_since_epoch()).count();
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ::futimens(file, times);
    ::close(file);
  }
  bool Has(const std::string& name) const { return ::access((directory_ + "/" + name).c_str(), F_OK) == 0; }
  /// A whole round with logs kept for 30 days; returns its steps.
  int Round(OldLogs& logs) const {
    int steps = 0;
    while (true) {
      ++steps;
      const auto has_more = logs.Step(now_ - 30 * kDay);
      EXPECT_TRUE(has_more) << has_more.error().message;
      if (!has_more || !*has_more) return steps;
    }
  }

  static constexpr Duration kDay = std::chrono::hours(24);
  Time now_ = Time(std::chrono::hours(500'000));
  std::string directory_;
  std::unique_ptr<MemoryStore> store_ = MakeMemoryStore();
};

TEST(OldLogs, AreRemovedOnlyForJobsThatEndedLongAgo) {
  World world;
  const Duration day = World::kDay;
  world.Job(1, JobState::kSucceeded, 31 * day), world.File("1.log", 31 * day);
  world.Job(2, JobState::kSucceeded, 29 * day), world.File("2.log", 29 * day);
  // The job has written nothing for months.
  world.Job(3, JobState::kRunning, Duration(0)), world.File("3.log", 90 * day);
  world.Job(4, JobState::kQueued, Duration(0)), world.File("4.log", 90 * day);  // The job will run again.
  // The job ran for long after its last line.
  world.Job(5, JobState::kFailed, 1 * day), world.File("5.log", 60 * day);
  OldLogs logs(world.directory_, *world.store_);
  world.Round(logs);
  EXPECT_FALSE(world.Has("1.log"));
  for (const char* kept : {"2.log", "3.log", "4.log", "5.log"}) EXPECT_TRUE(world.Has(kept)) << kept;
  EXPECT_EQ(logs.removed(), 1u);
}

TEST(OldLogs, AFileChosenByAUserIsKept) {
  World world;
  const Duration long_ago = 400 * World::kDay;
  world.Job(1, JobState::kSucceeded, long_ago, world.directory_ + "/1.log"), world.File("1.log", long_ago);
  world.File("9.log", long_ago, 0644);  // The job is forgotten, and divvy creates no files with this mode.
  for (const char* name : {"mine.log", "1.txt", "01.log", ".log", "7.log.gz", "-1.log"}) world.File(name, long_ago);
  std::filesystem::create_directory(world.directory_ + "/8.log");
  std::filesystem::create_symlink("mine.log", world.directory_ + "/10.log");
  OldLogs logs(world.directory_, *world.store_);
  world.Round(logs);
  EXPECT_EQ(logs.removed(), 0u);
  EXPECT_TRUE(world.Has("1.log"));
}

TEST(OldLogs, ALogOfAForgottenJobIsRemovedOnceItIsOldEnough) {
  World world;
  world.File("1.log", 31 * World::kDay);
  world.File("2.log", 29 * World::kDay);
  OldLogs logs(world.directory_, *world.store_);
  world.Round(logs);
  EXPECT_FALSE(world.Has("1.log"));
  EXPECT_TRUE(world.Has("2.log"));
}

TEST(OldLogs, ManyLogsAreRemovedInSmallSteps) {
  World world;
  for (int i = 1; i <= 100; ++i) world.File(std::to_string(i) + ".log", 31 * World::kDay);
  OldLogs logs(world.directory_, *world.store_);
  const auto has_more = logs.Step(world.now_ - 30 * World::kDay);
  ASSERT_TRUE(has_more);
  EXPECT_TRUE(*has_more);
  EXPECT_EQ(logs.removed(), 32u);
  EXPECT_GE(world.Round(logs), 2);
  EXPECT_EQ(logs.removed(), 100u);
  // The next round starts from the beginning.
  world.File("7.log", 31 * World::kDay);
  world.Round(logs);
  EXPECT_EQ(logs.removed(), 101u);
}

TEST(OldLogs, AMissingFolderIsAnErrorAndNoCrash) {
  World world;
  OldLogs logs("/nonexistent/logs", *world.store_);
  EXPECT_FALSE(logs.Step(world.now_));
}

TEST(OldLogs, OnAnAgentAreRemovedByAgeUnlessTheirJobRuns) {
  World world;
  const Duration day = World::kDay;
  world.File("1.log", 31 * day);
  world.File("2.log", 29 * day);
  world.File("3.log", 90 * day);        // The job runs, and has written nothing for months.
  world.File("4.log", 90 * day, 0644);  // Not created by divvy.
  OldLogs logs(world.directory_, [](JobId job) { return job == JobId(3); });
  world.Round(logs);
  EXPECT_FALSE(world.Has("1.log"));
  EXPECT_TRUE(world.Has("2.log") && world.Has("3.log") && world.Has("4.log"));
  EXPECT_EQ(logs.removed(), 1u);
}

}  // namespace old_logs_test
}  // namespace divvy
