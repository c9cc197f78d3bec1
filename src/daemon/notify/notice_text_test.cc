#include "daemon/notify/notice_text.h"

#include <gtest/gtest.h>

namespace divvy {
namespace notice_text_test {

JobRecord Train() {
  JobRecord job;
  job.id = JobId(6);
  job.name = "train";
  job.user.name = "ada";
  job.node = "n1";
  job.started = Time(std::chrono::seconds(100));
  job.gpus.Insert(1);
  return job;
}

TEST(NoticeText, AStartShowsNodesAndGpus) {
  JobRecord job = Train();
  EXPECT_EQ(StartText(job), "job 6 (train) of ada has started on n1 with 1 GPU");
  job.gpu_parts = GpuShare(2500);
  EXPECT_EQ(StartText(job), "job 6 (train) of ada has started on n1 with 0.25 GPUs");
  job.gpu_slice.profile = "3g.20gb";
  EXPECT_EQ(StartText(job), "job 6 (train) of ada has started on n1 with 3g.20gb");
}

TEST(NoticeText, AGangListsAllItsNodes) {
  JobRecord job = Train();
  for (const char* name : {"n1", "n2"}) job.gang.push_back({name, job.gpus});
  EXPECT_EQ(StartText(job), "job 6 (train) of ada has started on n1 and n2 with 2 GPUs");
  job.gang.push_back({"n3", job.gpus});
  EXPECT_EQ(StartText(job), "job 6 (train) of ada has started on n1, n2 and n3 with 3 GPUs");
  job.gang.push_back({"n4", job.gpus});
  EXPECT_EQ(StartText(job), "job 6 (train) of ada has started on 4 nodes with 4 GPUs");
  job.state = JobState::kSucceeded;
  job.ended = job.started + std::chrono::minutes(2);
  EXPECT_EQ(EndedText(job), "job 6 (train) of ada succeeded after 2 min on 4 nodes");
}

// Listings show waiting elements under the array's name; a notice is about the whole array.
TEST(NoticeText, AnArrayIsReportedAsAWhole) {
  JobRecord array = Train();
  array.array_count = 4;
  array.array_waiting.Insert(2, 3);
  EXPECT_EQ(StartText(array), "job 6 (train) of ada has started: an array of 4");
  EXPECT_EQ(NoticeJobOf(array).display_id, "6");
  JobRecord element = Train();
  element.array = JobId(6);
  element.array_index = 3;
  EXPECT_EQ(JobText(element), "job 6_3 (train) of ada");
}

TEST(NoticeText, SmallLossesAreNotRoundedToZero) {
  EXPECT_EQ(LostText({0.004, 11}), "0.004 GPU-hours lost so far, at a cost of 11.00");
  EXPECT_EQ(LostText({3.2, std::nullopt}), "3.20 GPU-hours lost so far");
}

}  // namespace notice_text_test
}  // namespace divvy
