#include "simulate/history.h"

#include <gtest/gtest.h>

namespace divvy::simulate {
namespace history_test {

TEST(History, ContainsJobsThatRanAndEnded) {
  JobRecord ran;
  ran.id = JobId(7);
  ran.state = JobState::kSucceeded;
  ran.user.name = "ann";
  ran.project = "vision";
  ran.request.gpus = 2;
  ran.submitted = TimeFromSeconds(100);
  ran.begin = TimeFromSeconds(150);
  ran.started = TimeFromSeconds(200);
  ran.ended = TimeFromSeconds(260);
  ran.time_limit = 1h;
  JobRecord waits = ran;
  waits.id = JobId(8);
  waits.state = JobState::kQueued;
  JobRecord never = ran;
  never.id = JobId(9);
  never.state = JobState::kCancelled;
  never.started = kNoTime;
  JobRecord array = ran;
  array.id = JobId(10);
  array.array_count = 3;

  const std::vector<JobRecord> records = {ran, waits, never, array};
  const Workload workload = WorkloadOf(records);
  ASSERT_EQ(workload.jobs.size(), 1u);
  const TraceJob& job = workload.jobs.front();
  EXPECT_EQ(job.id, "7");
  EXPECT_EQ(job.user, "ann");
  EXPECT_EQ(job.team, "vision");
  EXPECT_EQ(job.gpus, 2);
  EXPECT_EQ(job.submit, TimeFromSeconds(150)) << "it could not have started before its begin time";
  EXPECT_EQ(job.runtime, 60s);
  EXPECT_EQ(job.limit, 1h);
  EXPECT_EQ(job.published_start, TimeFromSeconds(200));
  EXPECT_EQ(workload.notes, std::vector<std::string>{"2 jobs left out: not started or still running"});
}

}  // namespace history_test
}  // namespace divvy::simulate
