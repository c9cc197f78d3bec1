#include "daemon/storage/housekeeping.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <vector>

#include "store/store_fake.h"

namespace divvy {
namespace housekeeping_test {

/// A store full of old jobs, and a loop whose threads are a queue that the test runs.
class World {
 public:
  World() {
    std::string path = testing::TempDir() + "divvy-logs-XXXXXX";
    directory_ = ::mkdtemp(path.data());
  }
  ~World() { std::filesystem::remove_all(directory_); }

  void OldJobs(int count) {
    Batch batch;
    for (int i = 1; i <= count; ++i) {
      JobRecord record;
      record.id = record.spec_of = JobId(static_cast<std::uint64_t>(i));
      record.state = JobState::kSucceeded;
      record.ended = clock_.Now() - std::chrono::hours(24 * 100);
      batch.inserts.push_back({record, std::make_shared<const JobSpec>()});
    }
    ASSERT_TRUE(store_->Commit({batch}));
  }
  std::size_t jobs() const { return store_->History({})->size(); }

  std::unique_ptr<Housekeeping> Make(Duration finished, Duration logs) {
    Housekeeping::Ports ports;
    ports.write = [this](std::function<void()> task) { now_.push_back(std::move(task)), ++writes_; };
    ports.read = [this](std::function<void()> task) { now_.push_back(std::move(task)), ++reads_; };
    ports.post = [this](std::function<void()> task) { now_.push_back(std::move(task)); };
    ports.after = [this](Duration delay, std::function<void()> task) { later_.emplace_back(delay, std::move(task)); };
    return std::make_unique<Housekeeping>(*store_, clock_, log_, Housekeeping::Keep{finished, logs, directory_},
                                          std::move(ports));
  }
  void RunNow() {
    while (!now_.empty()) {
      const auto task = std::move(now_.front());
      now_.pop_front();
      task();
    }
  }
  /// Lets pauses pass that are shorter than `most`, until none is left.
  void RunLater(Duration most) {
    for (bool has_run = true; has_run;) {
      has_run = false;
      for (auto& [delay, task] : std::exchange(later_, {})) {
        if (delay >= most) {
          later_.emplace_back(delay, std::move(task));
          continue;
        }
        task();
        RunNow();
        has_run = true;
      }
    }
  }

  FakeClock clock_{Time(std::chrono::hours(500'000))};
  std::unique_ptr<MemoryStore> store_ = MakeMemoryStore();
  std::vector<std::string> lines_;
  Log log_{[this](std::string_view line) { lines_.emplace_back(line); }};
  std::string directory_;
  std::deque<std::function<void()>> now_;
  std::vector<std::pair<Duration, std::function<void()>>> later_;
  int writes_ = 0;
  int reads_ = 0;
};

TEST(Housekeeping, OldJobsAreRemovedInThousandsWithPausesBetween) {
  World world;
  world.OldJobs(2500);
  const auto housekeeping = world.Make(std::chrono::hours(24 * 90), Duration(0));
  housekeeping->Start();
  world.RunNow();
  EXPECT_EQ(world.jobs(), 1500u);  // The rest waits for its pause, during which commits can run.
  EXPECT_EQ(world.writes_, 1);
  world.RunLater(std::chrono::minutes(1));
  EXPECT_EQ(world.jobs(), 0u);
  EXPECT_EQ(world.writes_, 4);  // The last one finds nothing.
  EXPECT_EQ(world.reads_, 0);
  ASSERT_EQ(world.later_.size(), 1u);  // The next round.
  EXPECT_TRUE(world.lines_.empty());
}

TEST(Housekeeping, ZeroKeepsJobsForever) {
  World world;
  world.OldJobs(1);
  const auto housekeeping = world.Make(Duration(0), Duration(0));
  housekeeping->Start();
  world.RunNow();
  EXPECT_EQ(world.jobs(), 1u);
  EXPECT_EQ(world.writes_ + world.reads_, 0);
}

TEST(Housekeeping, LogsAreRemovedInParallelWithTheWriter) {
  World world;
  world.OldJobs(1);
  std::ofstream(world.directory_ + "/1.log") << "long ago";
  std::filesystem::last_write_time(world.directory_ + "/1.log",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * 365 * 60));
  const auto housekeeping = world.Make(Duration(0), std::chrono::hours(24 * 30));
  housekeeping->Start();
  world.RunNow();
  EXPECT_TRUE(std::filesystem::is_empty(world.directory_));
  EXPECT_EQ(world.writes_, 0);
  ASSERT_EQ(world.lines_.size(), 1u);
  EXPECT_TRUE(world.lines_[0].ends_with("event=remove_logs count=1")) << world.lines_[0];
}

TEST(Housekeeping, ALongRoundIsNotStartedTwice) {
  World world;
  world.OldJobs(1500);
  const auto housekeeping = world.Make(std::chrono::hours(24 * 90), Duration(0));
  housekeeping->Start();
  housekeeping->Start();
  EXPECT_EQ(world.writes_, 1);
}

}  // namespace housekeeping_test
}  // namespace divvy
