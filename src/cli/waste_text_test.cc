#include "cli/waste_text.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace {

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

TEST(WasteText, EachJobOfAListingSaysWhatItWastes) {
  const WastedGpus wasted = WastedBy(Wasteful());
  EXPECT_EQ(WasteCell(wasted, JobId(7)), "2");
  EXPECT_EQ(WasteCell(wasted, JobId(9)), "0.188");
  EXPECT_EQ(WasteCell(wasted, JobId(8)), "");
}

TEST(WasteText, JsonHasItOfEveryJobBesideWhatTheApiAnswers) {
  const std::string json = JobsWithWaste({Job(7), Job(8)}, WastedBy(Wasteful()));
  EXPECT_TRUE(json.starts_with("[{\"id\":7,")) << json;
  EXPECT_NE(json.find(",\"wasted_gpus\":2},{\"id\":8,"), std::string::npos) << json;
  EXPECT_TRUE(json.ends_with(",\"wasted_gpus\":0}]")) << json;
  EXPECT_EQ(JobsWithWaste({}, {}), "[]");
}

TEST(WasteText, ALineSumsUpThoseThatAreListed) {
  EXPECT_EQ(WasteLine(Wasteful(), [](JobId) { return true; }), "2 jobs waste 2.19 GPUs; divvy report waste");
  EXPECT_EQ(WasteLine(Wasteful(), [](JobId id) { return id == JobId(7); }), "1 job wastes 2 GPUs; divvy report waste");
  EXPECT_EQ(WasteLine(Wasteful(), [](JobId) { return false; }), "");
}

}  // namespace
}  // namespace divvy::cli
