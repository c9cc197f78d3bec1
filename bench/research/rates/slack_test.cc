#include "research/rates/slack.h"

#include <gtest/gtest.h>

namespace divvy::rates {
namespace slack_test {

using Jobs = std::vector<SlackJob>;
using Running = std::vector<std::size_t>;

TEST(Slack, AShortJobIsDueBeforeALongOneThatCameFirst) {
  const Jobs jobs = {{.arrival_s = 0, .remaining_s = 5000, .mean_jobs = 1},
                     {.arrival_s = 100, .remaining_s = 300, .mean_jobs = 1}};
  EXPECT_EQ(PickByLeastSlack(jobs, 100, 1, {}), (Running{1}));
}

TEST(Slack, TheLongestJobStartsEarlyEnoughToEndWithTheRest) {
  // Three jobs of 1,000 s and one of 1,500 s on two GPUs end at 2,250 s at best. By fairness alone the long one is due
  // last.
  Jobs jobs(4, {.arrival_s = 0, .remaining_s = 1000, .mean_jobs = 4});
  jobs[3].remaining_s = 1500;
  SlackOptions options{.rho = 10};
  EXPECT_EQ(PickByLeastSlack(jobs, 0, 2, options)[0], 3u);
}

TEST(Slack, AJobPastItsDueTimeComesFirst) {
  const Jobs jobs = {{.arrival_s = 900, .remaining_s = 500, .mean_jobs = 2},
                     {.arrival_s = 0, .remaining_s = 500, .mean_jobs = 2}};
  EXPECT_EQ(PickByLeastSlack(jobs, 1500, 1, {}), (Running{1}));
}

TEST(Slack, ARunningJobIsNotStoppedForASmallGain) {
  const Jobs jobs = {{.arrival_s = 0, .remaining_s = 500, .mean_jobs = 1, .is_running = false},
                     {.arrival_s = 50, .remaining_s = 500, .mean_jobs = 1, .is_running = true}};
  EXPECT_EQ(PickByLeastSlack(jobs, 400, 1, {.keep_s = 120}), (Running{1}));
  EXPECT_EQ(PickByLeastSlack(jobs, 400, 1, {.keep_s = 20}), (Running{0}));
}

TEST(Slack, AGangThatDoesNotFitIsSkippedAndNeverSplit) {
  const Jobs jobs = {{.arrival_s = 0, .remaining_s = 900, .mean_jobs = 3, .gpus = 2},
                     {.arrival_s = 0, .remaining_s = 890, .mean_jobs = 3, .gpus = 2},
                     {.arrival_s = 0, .remaining_s = 10, .mean_jobs = 3, .gpus = 1}};
  const Running running = PickByLeastSlack(jobs, 2000, 3, {});
  EXPECT_EQ(running.size(), 2u);
  int gpus = 0;
  for (const std::size_t i : running) gpus += jobs[i].gpus;
  EXPECT_EQ(gpus, 3);
}

TEST(Slack, WithoutJobsNothingRuns) { EXPECT_TRUE(PickByLeastSlack({}, 0, 8, {}).empty()); }

}  // namespace slack_test
}  // namespace divvy::rates
