#include "model/run_line.h"

#include <gtest/gtest.h>

namespace divvy {
namespace run_line_test {

JobRecord Ran(const std::string& node, GpuSet gpus, std::uint32_t attempt = 1) {
  JobRecord record;
  record.id = JobId(7);
  record.node = node;
  record.gpus = gpus;
  record.attempt = attempt;
  record.started = Time(std::chrono::hours(1));
  record.start_reason = "first in line";
  return record;
}

/// The line that KeepRun writes. Empty if it writes none.
std::string LineOf(const JobRecord& record) {
  Batch batch;
  KeepRun(record, JobState::kFailed, record.started + std::chrono::seconds(5), batch);
  return batch.history.empty() ? "" : batch.history.front().text;
}

TEST(RunLine, NamesTheNodeOfARunAndIsReadBack) {
  const JobRecord far = Ran("n2", GpuSet::FirstN(4));
  EXPECT_EQ(StartedText(far), "started on n2 (GPUs 0-3): first in line");
  EXPECT_EQ(LineOf(far), "run 1 started on n2 (GPUs 0-3): first in line");
  EXPECT_EQ(ReadRunLine(LineOf(far)), (EarlierRun{1, "n2"}));
  EXPECT_EQ(ReadRunLine(LineOf(Ran("n2", GpuSet()))), (EarlierRun{1, "n2"}));
  // On the controller's own node.
  EXPECT_EQ(StartedText(Ran("", GpuSet::FirstN(1), 3)), "run 3 started on GPU 0: first in line");
  EXPECT_EQ(ReadRunLine(LineOf(Ran("", GpuSet::FirstN(2), 3))), (EarlierRun{3, ""}));
  EXPECT_EQ(ReadRunLine(LineOf(Ran("", GpuSet()))), (EarlierRun{1, ""}));
  // A node may have any name.
  EXPECT_EQ(ReadRunLine(LineOf(Ran("GPUs", GpuSet::FirstN(1)))), (EarlierRun{1, "GPUs"}));
}

TEST(RunLine, NamesTheNodesOfAGangAndTheFirstHasTheOutput) {
  JobRecord gang = Ran("n3", GpuSet::FirstN(2));
  gang.was_let_go = true;
  gang.gang = {{"n3", GpuSet::FirstN(2)}, {"", GpuSet::FirstN(1)}};
  EXPECT_EQ(LineOf(gang), "run 1 started on n3 (GPUs 0-1), the controller's machine (GPU 0): first in line");
  EXPECT_EQ(ReadRunLine(LineOf(gang)), (EarlierRun{1, "n3"}));
  std::swap(gang.gang[0], gang.gang[1]);
  EXPECT_EQ(ReadRunLine(LineOf(gang)), (EarlierRun{1, ""}));
  gang.was_let_go = false;
  EXPECT_EQ(LineOf(gang), "") << "it never began";
}

TEST(RunLine, OtherLinesAreNotRunLines) {
  for (const char* text : {"queued again by root", "run", "run 1", "run x started on n2", "run 0 started on n2",
                           "run 1 is over", "started on n2 (GPU 0)", "run 99999999999 started on n2", ""})
    EXPECT_EQ(ReadRunLine(text), std::nullopt) << text;
}

TEST(RunLine, ANodeThatCouldNotStartTheJobHasNoRunLine) {
  JobRecord refused = Ran("n2", GpuSet::FirstN(1));
  refused.exit = Exit{};
  refused.exit->code = 121;
  refused.exit->failure = "its disk is full";
  EXPECT_EQ(LineOf(refused), "");
}

}  // namespace run_line_test
}  // namespace divvy
