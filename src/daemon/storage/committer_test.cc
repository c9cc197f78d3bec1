#include "daemon/storage/committer.h"

#include <gtest/gtest.h>

#include <deque>
#include <mutex>

#include "store/store_fake.h"

namespace divvy {
namespace committer_test {

/// Each call to Now advances the time by one step, so a commit takes one step.
class SteppingClock final : public Clock {
 public:
  Time Now() const override { return now_ += step; }
  void Advance(Duration by) { now_ += by; }
  Duration step = 100us;

 private:
  mutable Time now_ = kNoTime;
};

/// A disk as slow as the test says, and a loop that is a queue; records the thread of each commit.
class Disk {
 public:
  bool CommitsInline(std::size_t rows = 1, Duration calm_before = 1s) {
    clock_.Advance(calm_before);
    std::vector<Batch> batches(1);
    batches[0].history.resize(rows);
    bool is_done = false;
    committer_.Commit(std::move(batches), [&](const Status& status) {
      EXPECT_TRUE(status);
      is_done = true;
    });
    const bool was_inline = is_done;
    while (!is_done) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(posted_now_.wait_for(lock, 10s, [&] { return !posted_.empty(); }));
        if (posted_.empty()) return false;
        task = std::move(posted_.front());
        posted_.pop_front();
      }
      task();
    }
    return was_inline;
  }
  void DoAnotherThing() {
    committer_.Do([] {});
  }
  void set_takes(Duration takes) { clock_.step = takes; }

 private:
  std::mutex mutex_;
  std::condition_variable posted_now_;
  std::deque<std::function<void()>> posted_;
  SteppingClock clock_;
  std::unique_ptr<MemoryStore> store_ = MakeMemoryStore();
  Worker writer_;
  Committer committer_{*store_, writer_, clock_, [this](std::function<void()> task) {
                         const std::lock_guard lock(mutex_);
                         posted_.push_back(std::move(task));
                         posted_now_.notify_one();
                       }};
};

TEST(Committer, TheFirstCommitMeasuresTheDiskAndAFastDiskCommitsOnTheLoop) {
  Disk disk;
  EXPECT_FALSE(disk.CommitsInline());
  EXPECT_TRUE(disk.CommitsInline());
  EXPECT_TRUE(disk.CommitsInline());
}

TEST(Committer, FrequentCommitsRunOutsideTheLoop) {
  Disk disk;
  disk.CommitsInline();
  EXPECT_TRUE(disk.CommitsInline());
  EXPECT_FALSE(disk.CommitsInline(1, 0s));
  EXPECT_FALSE(disk.CommitsInline(1, 0s));
  EXPECT_TRUE(disk.CommitsInline());
}

TEST(Committer, LargeCommitsRunOutsideTheLoop) {
  Disk disk;
  disk.CommitsInline();
  EXPECT_FALSE(disk.CommitsInline(Committer::kFewRows + 1));
  EXPECT_TRUE(disk.CommitsInline());
}

TEST(Committer, ASlowDiskCommitsOutsideTheLoopUntilItIsFastForAWhile) {
  Disk disk;
  disk.CommitsInline();
  disk.set_takes(40ms);
  EXPECT_TRUE(disk.CommitsInline());  // The first slow commit cannot be foreseen.
  EXPECT_FALSE(disk.CommitsInline());
  disk.set_takes(100us);
  EXPECT_FALSE(disk.CommitsInline());
  int commits = 0;
  while (!disk.CommitsInline() && commits < 100) ++commits;
  EXPECT_GT(commits, 3);
  EXPECT_LT(commits, 100);
}

TEST(Committer, TheLoopDoesNotWaitWhileTheWriterIsBusy) {
  Disk disk;
  disk.CommitsInline();
  EXPECT_TRUE(disk.CommitsInline());
  disk.DoAnotherThing();
  EXPECT_FALSE(disk.CommitsInline());
  EXPECT_TRUE(disk.CommitsInline());
}

}  // namespace committer_test
}  // namespace divvy
