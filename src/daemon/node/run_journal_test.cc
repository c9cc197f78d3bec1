#include "daemon/node/run_journal.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace divvy {
namespace run_journal_test {

using Words = std::vector<std::string>;

class JournalFile : public testing::Test {
 protected:
  JournalFile() {
    std::string pattern = testing::TempDir() + "divvy-journal-test.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~JournalFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RunJournal Open(std::int64_t max_size = RunJournal::kMaxSize) {
    auto journal = RunJournal::Open(path(), max_size);
    EXPECT_TRUE(journal);
    return *std::move(journal);
  }
  static Effects Launch(std::uint64_t job, std::uint32_t attempt) {
    Effects effects;
    JobRecord record;
    record.id = JobId(job);
    record.attempt = attempt;
    record.state = JobState::kStarting;
    record.gpus = GpuSet::Of({1, 2});
    effects.commands.push_back(LaunchCommand{record, "", 0});
    return effects;
  }
  /// "17.1 starting", "17.1 failed 3".
  Words Runs(RunJournal& journal) {
    Words runs;
    const auto kept = journal.Read([](JobId, std::uint32_t) { return true; },
                                   [&](const RunDescription& run) {
                                     const JobRecord& record = run.record;
                                     runs.push_back(ToString(record.id) + "." + std::to_string(record.attempt) + " " +
                                                    std::string(Name(record.state)) +
                                                    (run.exit ? " " + std::to_string(run.exit->code) : ""));
                                   });
    EXPECT_TRUE(kept);
    kept_ = *kept;
    return runs;
  }
  std::string path() const { return folder_ + "/runs.journal"; }

  std::string folder_;
  RunJournal::Kept kept_;
};

TEST_F(JournalFile, LaunchesAndEndsAreReadBackInOrderWithoutTheLaunchesThatHaveEnded) {
  {
    RunJournal journal = Open();
    ASSERT_TRUE(journal.Write(Launch(16, 2)));
    ASSERT_TRUE(journal.ReserveIds(18));
    ASSERT_TRUE(journal.ReserveIds(17));
    ASSERT_TRUE(journal.Write(Launch(17, 1)));
    Effects end;
    JobRecord record;
    record.id = JobId(17);
    record.attempt = 1;
    record.state = JobState::kFailed;
    record.exit.emplace();
    record.exit->code = 3;
    end.finished.push_back(record);
    ASSERT_TRUE(journal.Write(end));
    ASSERT_TRUE(journal.Write(Launch(17, 2)));
    ASSERT_TRUE(journal.WriteEpoch(7));
  }
  RunJournal journal = Open();
  EXPECT_EQ(Runs(journal), (Words{"16.2 starting", "17.1 failed 3", "17.2 starting"}));
  EXPECT_EQ(kept_.next_id, 18u);
  EXPECT_EQ(kept_.epoch, 7u);
}

TEST_F(JournalFile, ATruncatedLineIsSkippedAndTheNextIsWhole) {
  { ASSERT_TRUE(Open().Write(Launch(17, 1))); }
  std::ofstream(path(), std::ios::app) << "run 18 1 {\"rec";
  RunJournal journal = Open();
  ASSERT_TRUE(journal.Write(Launch(19, 1)));
  EXPECT_EQ(Runs(journal), (Words{"17.1 starting", "19.1 starting"}));
}

TEST_F(JournalFile, AFullFileIsCompactedAndKeepsTheNextId) {
  RunJournal journal = Open(100);
  for (std::uint64_t job = 1; job <= 20; ++job) {
    ASSERT_TRUE(journal.ReserveIds(job + 1));
    ASSERT_TRUE(journal.Write(Launch(job, 1)));
  }
  EXPECT_FALSE(Runs(journal).empty());
  EXPECT_LT(Runs(journal).size(), 20u);
  EXPECT_EQ(kept_.next_id, 21u);
  EXPECT_LT(std::filesystem::file_size(path()), 2000u);
}

}  // namespace run_journal_test
}  // namespace divvy
