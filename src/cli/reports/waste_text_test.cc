#include "cli/reports/waste_text.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace waste_text_test {

wire::JobView Job(std::uint64_t id) {
  wire::JobView job;
  job.id = JobId(id);
  return job;
}

wire::WasteAnswer Wasteful() {
  wire::WasteAnswer answer;
  answer.jobs.resize(2);
  answer.jobs[0].id = JobId(7);
  answer.jobs[0].wasted_gpus = 2;
  answer.jobs[1].id = JobId(9);
  answer.jobs[1].wasted_gpus = 0.1875;
  return answer;
}

TEST(WasteText, EachListedJobShowsItsWaste) {
  const WastedGpus wasted = WastedBy(Wasteful());
  EXPECT_EQ(WasteCell(wasted, JobId(7)), "2");
  EXPECT_EQ(WasteCell(wasted, JobId(9)), "0.188");
  EXPECT_EQ(WasteCell(wasted, JobId(8)), "");
}

TEST(WasteText, EachJobInJsonHasAllItsWaste) {
  const auto listed = JobsWithWaste({Job(9), Job(8)}, WastedBy(Wasteful()));
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].id, JobId(9));
  EXPECT_EQ(listed[0].wasted_gpus, 0.1875) << "as it is, and not as people read it";
  EXPECT_EQ(listed[1].wasted_gpus, 0);
}

TEST(WasteText, ASummaryLineCountsTheListedJobs) {
  EXPECT_EQ(WasteLine(Wasteful(), [](JobId) { return true; }), "2 jobs waste 2.19 GPUs; divvy report waste");
  EXPECT_EQ(WasteLine(Wasteful(), [](JobId id) { return id == JobId(7); }), "1 job wastes 2 GPUs; divvy report waste");
  EXPECT_EQ(WasteLine(Wasteful(), [](JobId) { return false; }), "");
}

}  // namespace waste_text_test
}  // namespace divvy::cli
