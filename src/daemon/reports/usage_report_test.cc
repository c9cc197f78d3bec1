#include "daemon/reports/usage_report.h"

#include <gtest/gtest.h>

namespace divvy {
namespace usage_report_test {

using std::chrono::hours;
using std::chrono::minutes;

// 1970-01-02T00:00 plus a number of minutes.
Time At(int minute) { return Time(hours(24)) + minutes(minute); }

ReportedRun Ran(const std::string& user, double gpus, int queued, int started, int ended) {
  static std::uint64_t jobs = 0;
  ReportedRun run;
  run.id = JobId(++jobs);
  run.user = user;
  run.team = user == "ada" ? "vision" : "";
  run.gpus = gpus;
  run.queued = At(queued);
  run.started = At(started);
  run.ended = At(ended);
  return run;
}

TEST(UsageReport, CountsGpuHoursWithinThePeriod) {
  std::vector<ReportedRun> runs = {Ran("ada", 2, -120, -60, 60), Ran("ada", 0.5, 0, 30, 90), Ran("bob", 1, 0, 0, 600),
                                   Ran("bob", 8, -300, -200, -100)};
  runs[1].has_failed = true;
  ReportedRun waits = Ran("cyd", 1, 10, 0, 0);
  waits.started = waits.ended = kNoTime;
  runs.push_back(waits);
  const auto report = ReportUsage(runs, ReportBy::kUser, {At(0), At(120)});
  EXPECT_EQ(report.by, "user");
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].group, "ada");
  EXPECT_DOUBLE_EQ(report.rows[0].gpu_hours, 2 * 1.0 + 0.5 * 1.0);
  EXPECT_DOUBLE_EQ(report.rows[0].failed_gpu_hours, 0.5);
  EXPECT_EQ(report.rows[0].jobs, 2);
  EXPECT_EQ(report.rows[0].failed, 1);
  EXPECT_EQ(report.rows[0].wait_median_s, 30 * 60) << "the other started before";
  EXPECT_EQ(report.rows[1].group, "bob");
  EXPECT_DOUBLE_EQ(report.rows[1].gpu_hours, 2);
  EXPECT_EQ(report.rows[1].jobs, 1) << "the other ended before";
  EXPECT_EQ(report.rows[1].running, 1) << "at the stretch's end";
  EXPECT_EQ(report.rows[2].group, "cyd");
  EXPECT_EQ(report.rows[2].jobs, 1);
  EXPECT_EQ(report.rows[2].running, 0);
  EXPECT_EQ(report.rows[2].wait_median_s, std::nullopt) << "what waits still has not waited for nothing";
  EXPECT_EQ(report.rows[2].wait_mean_s, std::nullopt);
  EXPECT_EQ(report.rows[2].wait_p95_s, std::nullopt);
  EXPECT_DOUBLE_EQ(report.gpu_hours, 4.5);
  EXPECT_DOUBLE_EQ(report.rows[0].share + report.rows[1].share, 1);
}

// The job failed, was started again and runs. Its hours are those of both runs, and it counts as one job that has not
// failed.
TEST(UsageReport, AJobThatRanTwiceIsOneJobWithTheHoursOfBothRuns) {
  JobRecord job;
  job.id = JobId(7);
  job.user.name = "ada";
  job.state = JobState::kRunning;
  job.attempt = 2;
  job.restarts = 1;
  job.queued_at = At(0);  // Its queue timestamp.
  job.waits_since = At(60);
  job.started = At(90);
  job.gpus.Insert(0);
  JobRecord first = job;
  first.attempt = 1;
  first.state = JobState::kFailed;
  first.waits_since = At(0);
  first.started = At(30);
  first.ended = At(60);
  first.gpus.Insert(1);
  std::vector<ReportedRun> runs;
  AddRunOf(job, ReportBy::kUser, "head", runs);
  AddPastRunOf(first, ReportBy::kUser, "head", runs);
  const auto report = ReportUsage(runs, ReportBy::kUser, {At(0), At(120)});
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].jobs, 1);
  EXPECT_EQ(report.rows[0].running, 1);
  EXPECT_EQ(report.rows[0].failed, 0);
  EXPECT_DOUBLE_EQ(report.rows[0].gpu_hours, 2 * 0.5 + 1 * 0.5);
  EXPECT_DOUBLE_EQ(report.rows[0].failed_gpu_hours, 1);
  EXPECT_EQ(report.rows[0].wait_mean_s, 30 * 60) << "half an hour each time";
  const auto fairness = ReportFairness(runs, ReportBy::kUser, {At(0), At(120)});
  ASSERT_EQ(fairness.rows.size(), 1u);
  EXPECT_EQ(fairness.rows[0].jobs, 2) << "starts";
  EXPECT_DOUBLE_EQ(fairness.rows[0].wait_longest_s, 30 * 60);
  EXPECT_FALSE(report.rows[0].job);
  const auto by_job = ReportUsage(runs, ReportBy::kJob, {At(0), At(120)});
  ASSERT_EQ(by_job.rows.size(), 1u);
  EXPECT_EQ(by_job.rows[0].group, "7");
  ASSERT_TRUE(by_job.rows[0].job);
  EXPECT_EQ(by_job.rows[0].job->state, "running") << "as it is now, not as it was";
  EXPECT_DOUBLE_EQ(by_job.rows[0].failed_gpu_hours, 1);

  job.state = JobState::kQueued;
  job.gpus = GpuSet();
  runs.clear();
  AddRunOf(job, ReportBy::kUser, "head", runs);
  AddPastRunOf(first, ReportBy::kUser, "head", runs);
  EXPECT_EQ(ReportUsage(runs, ReportBy::kUser, {At(0), At(120)}).rows.at(0).running, 0) << "it waits for its next run";
}

TEST(UsageReport, HoursAreInOrderAndDivideEachRun) {
  const auto report = ReportUsage({Ran("ada", 4, 0, 30, 150)}, ReportBy::kHour, {At(0), At(240)});
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].group, "1970-01-02T00");
  EXPECT_DOUBLE_EQ(report.rows[0].gpu_hours, 2);
  EXPECT_EQ(report.rows[0].wait_median_s, 30 * 60);
  EXPECT_DOUBLE_EQ(report.rows[1].gpu_hours, 4);
  EXPECT_EQ(report.rows[1].wait_median_s, std::nullopt) << "it started an hour before";
  EXPECT_EQ(report.rows[1].running, 1);
  EXPECT_DOUBLE_EQ(report.rows[2].gpu_hours, 2);
  EXPECT_EQ(report.rows[2].running, 0);
}

// By hour as by user: a job that waited in an hour and never started counts as a job of that hour, and not in waiting
// times.
TEST(UsageReport, AJobThatNeverStartedCountsInEachHourInWhichItWaited) {
  ReportedRun waits = Ran("ada", 1, 30, 0, 0);
  waits.started = waits.ended = kNoTime;
  ReportedRun cancelled = Ran("bob", 1, 30, 0, 90);
  cancelled.started = kNoTime;
  const std::vector<ReportedRun> runs = {waits, cancelled, Ran("cyd", 2, 40, 50, 110)};
  const auto report = ReportUsage(runs, ReportBy::kHour, {At(0), At(180)});
  ASSERT_EQ(report.rows.size(), 3u);
  for (int hour = 0; hour < 3; ++hour) {
    const wire::UsageRow& row = report.rows[hour];
    const auto alone = ReportUsage(runs, ReportBy::kTeam, {At(60 * hour), At(60 * hour + 60)});
    std::int64_t jobs = 0;
    for (const wire::UsageRow& team : alone.rows) jobs += team.jobs;
    EXPECT_EQ(row.jobs, jobs) << row.group;
    EXPECT_DOUBLE_EQ(row.gpu_hours, alone.gpu_hours) << row.group;
  }
  EXPECT_EQ(report.rows[0].jobs, 3);
  EXPECT_EQ(report.rows[0].wait_median_s, 10 * 60) << "of the one that started";
  EXPECT_EQ(report.rows[1].jobs, 3);
  EXPECT_EQ(report.rows[1].wait_median_s, std::nullopt);
  EXPECT_EQ(report.rows[2].jobs, 1);
}

// Its start and its GPUs belong to the earlier run.
TEST(UsageReport, AJobCancelledBeforeItsNextRunCountsItsEarlierRunOnly) {
  JobRecord job;
  job.id = JobId(7);
  job.user.name = "ada";
  job.state = JobState::kCancelled;
  job.attempt = 1;
  job.restarts = 1;
  job.waits_since = At(60);
  job.started = At(30);
  job.ended = At(110);
  JobRecord first = job;
  first.state = JobState::kFailed;
  first.restarts = 0;
  first.waits_since = At(0);
  first.ended = At(60);
  first.gpus.Insert(1);
  std::vector<ReportedRun> runs;
  AddRunOf(job, ReportBy::kUser, "head", runs);
  AddPastRunOf(first, ReportBy::kUser, "head", runs);
  const auto report = ReportUsage(runs, ReportBy::kUser, {At(0), At(120)});
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].jobs, 1);
  EXPECT_DOUBLE_EQ(report.rows[0].gpu_hours, 0.5);
  EXPECT_EQ(report.rows[0].wait_median_s, 30 * 60) << "of the run that it had";
  EXPECT_EQ(ReportFairness(runs, ReportBy::kUser, {At(0), At(120)}).rows.at(0).jobs, 1) << "starts";
}

TEST(UsageReport, ARunningJobCountsUntilTheEndOfThePeriod) {
  ReportedRun run = Ran("ada", 1, 0, 0, 0);
  run.ended = kNoTime;
  const auto report = ReportUsage({run}, ReportBy::kTeam, {At(-60), At(180)});
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].group, "vision");
  EXPECT_DOUBLE_EQ(report.rows[0].gpu_hours, 3);
}

TEST(UsageReport, GroupedByNodeAJobOnSeveralNodesCountsOnEach) {
  JobRecord gang;
  gang.id = JobId(1);
  gang.state = JobState::kSucceeded;
  gang.queued_at = gang.started = At(0);
  gang.ended = At(60);
  NodeAllocation own;
  own.gpus.Insert(0);
  own.gpus.Insert(1);
  NodeAllocation other;
  other.node = "n1";
  other.gpus.Insert(3);
  gang.gang = {own, other};
  gang.gpus = own.gpus;
  JobRecord waits;  // The job waits for its next run.
  waits.id = JobId(2);
  waits.state = JobState::kQueued;
  waits.queued_at = At(0);
  waits.started = At(1);
  std::vector<ReportedRun> runs;
  AddRunOf(gang, ReportBy::kNode, "head", runs);
  AddRunOf(waits, ReportBy::kNode, "head", runs);
  const auto report = ReportUsage(runs, ReportBy::kNode, {At(0), At(60)});
  ASSERT_EQ(report.rows.size(), 3u);
  EXPECT_EQ(report.rows[0].group, "head");
  EXPECT_DOUBLE_EQ(report.rows[0].gpu_hours, 2);
  EXPECT_EQ(report.rows[1].group, "n1");
  EXPECT_DOUBLE_EQ(report.rows[1].gpu_hours, 1);
  EXPECT_EQ(report.rows[2].group, "") << "what was never started is on no machine";
  EXPECT_EQ(report.rows[2].jobs, 1);

  runs.clear();
  AddRunOf(gang, ReportBy::kUser, "head", runs);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_DOUBLE_EQ(runs[0].gpus, 3);
}

providers::PricedNode ProviderNode(const std::string& name, int gpus, int cpus, double hourly, int from, int gone) {
  providers::PricedNode node;
  node.node = name;
  node.gpus = gpus;
  node.cpus = cpus;
  node.hourly = Money(static_cast<std::int64_t>(hourly * 1e6));
  node.requested = At(from);
  node.gone = At(gone);
  return node;
}

JobRecord RanOn(std::uint64_t id, const std::string& user, const std::string& node, int gpus, int from, int until) {
  JobRecord job;
  job.id = JobId(id);
  job.user.name = user;
  job.state = JobState::kSucceeded;
  job.queued_at = job.waits_since = At(from);
  job.started = At(from);
  job.ended = At(until);
  NodeAllocation allocation;
  allocation.node = node;
  for (int gpu = 0; gpu < gpus; ++gpu) allocation.gpus.Insert(static_cast<GpuIndex>(gpu));
  job.node = node;
  job.gpus = allocation.gpus;
  return job;
}

// Ada has 2 of 8 GPUs for half an hour and bob has 4 for an hour. The node is there for two hours. An earlier node had
// the same name.
TEST(UsageReport, JobsHaveTheirPartOfThePriceOfProvidersNodes) {
  const std::vector<providers::PricedNode> nodes = {ProviderNode("aws-1", 8, 64, 100, -300, -200),
                                                    ProviderNode("aws-1", 8, 64, 24, 0, 120)};
  std::vector<ReportedRun> runs;
  AddRunOf(RanOn(1, "ada", "aws-1", 2, 10, 40), ReportBy::kUser, "head", runs);
  AddRunOf(RanOn(2, "bob", "aws-1", 4, 30, 90), ReportBy::kUser, "head", runs);
  AddRunOf(RanOn(3, "cyd", "own", 4, 0, 60), ReportBy::kUser, "head", runs);
  AddCosts(nodes, runs);
  const auto report = ReportUsage(runs, ReportBy::kUser, {At(0), At(600)}, std::span(nodes).subspan(1));
  ASSERT_EQ(report.rows.size(), 3u);
  const auto row = [&](const std::string& user) {
    return *std::ranges::find(report.rows, user, &wire::UsageRow::group);
  };
  EXPECT_DOUBLE_EQ(*row("ada").nodes_cost, 3);
  EXPECT_DOUBLE_EQ(*row("ada").nodes_share, 0.25);
  EXPECT_DOUBLE_EQ(*row("bob").nodes_cost, 12);
  EXPECT_DOUBLE_EQ(*row("cyd").nodes_cost, 0);
  EXPECT_EQ(row("cyd").nodes_share, std::nullopt);
  EXPECT_DOUBLE_EQ(*report.nodes_cost, 48);
  EXPECT_DOUBLE_EQ(*report.unused_nodes_cost, 33);
  // Only what is in the period counts.
  const auto part = ReportUsage(runs, ReportBy::kUser, {At(60), At(120)}, std::span(nodes).subspan(1));
  EXPECT_DOUBLE_EQ(*part.nodes_cost, 24);
  ASSERT_EQ(part.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(*part.rows[0].nodes_cost, 6);
  const auto by_hour = ReportUsage(runs, ReportBy::kHour, {At(0), At(120)}, std::span(nodes).subspan(1));
  ASSERT_EQ(by_hour.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(*by_hour.rows[0].nodes_cost, 3 + 6);
  EXPECT_DOUBLE_EQ(*by_hour.rows[1].nodes_cost, 6);
  EXPECT_EQ(ReportUsage(runs, ReportBy::kUser, {At(0), At(600)}).nodes_cost, std::nullopt) << "no nodes of providers";
}

TEST(UsageReport, OnNodesWithoutGpusTheCoresCount) {
  JobRecord job = RanOn(1, "ada", "cpu-1", 0, 0, 60);
  job.request.cpus = 16;
  const std::vector<providers::PricedNode> nodes = {ProviderNode("cpu-1", 0, 64, 4, 0, 60)};
  std::vector<ReportedRun> runs;
  AddRunOf(job, ReportBy::kNode, "head", runs);
  AddCosts(nodes, runs);
  const auto report = ReportUsage(runs, ReportBy::kNode, {At(0), At(60)}, nodes);
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(*report.rows[0].nodes_cost, 1);
}

// One job has 3 tasks of 4 cores, two of them on the first node. The other one has a component with 8 cores on the
// first node, and one with 32 cores on the second.
TEST(UsageReport, OnNodesWithoutGpusTasksAndComponentsCountWhereTheyAre) {
  const std::vector<providers::PricedNode> nodes = {ProviderNode("cpu-1", 0, 64, 64, 0, 60),
                                                    ProviderNode("cpu-2", 0, 64, 64, 0, 60)};
  NodeAllocation first, second;
  first.node = "cpu-1";
  second.node = "cpu-2";
  JobRecord spread = RanOn(1, "ada", "cpu-1", 0, 0, 60);
  spread.request.cpus = 12;
  spread.request.tasks = 3;
  spread.request.spreads_tasks = true;
  first.tasks = 2;
  second.tasks = 1;
  spread.gang = {first, second};
  JobRecord mixed = RanOn(2, "bob", "cpu-1", 0, 0, 60);
  mixed.request.cpus = 8;
  mixed.request.others.emplace_back().cpus = 32;
  first.tasks = second.tasks = 1;
  first.parts = {ComponentAllocation{0, {}, 1}};
  second.parts = {ComponentAllocation{1, {}, 1}};
  mixed.gang = {first, second};
  std::vector<ReportedRun> runs;
  AddRunOf(spread, ReportBy::kUser, "head", runs);
  AddRunOf(mixed, ReportBy::kUser, "head", runs);
  AddCosts(nodes, runs);
  const auto report = ReportUsage(runs, ReportBy::kUser, {At(0), At(60)}, nodes);
  ASSERT_EQ(report.rows.size(), 2u);
  const bool is_ada_first = report.rows[0].group == "ada";
  EXPECT_DOUBLE_EQ(*report.rows[is_ada_first ? 0 : 1].nodes_cost, 8 + 4);
  EXPECT_DOUBLE_EQ(*report.rows[is_ada_first ? 1 : 0].nodes_cost, 8 + 32);
  runs.clear();
  AddRunOf(spread, ReportBy::kNode, "head", runs);
  AddRunOf(mixed, ReportBy::kNode, "head", runs);
  AddCosts(nodes, runs);
  const auto by_node = ReportUsage(runs, ReportBy::kNode, {At(0), At(60)}, nodes);
  ASSERT_EQ(by_node.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(*by_node.rows[0].nodes_cost, 8 + 8);
  EXPECT_DOUBLE_EQ(*by_node.rows[1].nodes_cost, 4 + 32);
}

// The node is billed by two hours, so the second one is part of a billing period that began before the report.
TEST(UsageReport, TheCostOfNodesIsAtLeastThatOfTheTimeInThePeriod) {
  std::vector<providers::PricedNode> nodes = {ProviderNode("aws-1", 8, 64, 24, 0, 90)};
  nodes[0].billing_period = hours(2);
  std::vector<ReportedRun> runs;
  AddRunOf(RanOn(1, "ada", "aws-1", 8, 0, 75), ReportBy::kUser, "head", runs);
  AddCosts(nodes, runs);
  const auto first = ReportUsage(runs, ReportBy::kUser, {At(0), At(60)}, nodes);
  EXPECT_DOUBLE_EQ(*first.nodes_cost, 48);
  EXPECT_DOUBLE_EQ(*first.unused_nodes_cost, 24) << "the rest of the billing period";
  const auto second = ReportUsage(runs, ReportBy::kUser, {At(60), At(120)}, nodes);
  ASSERT_EQ(second.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(*second.rows[0].nodes_cost, 6);
  EXPECT_DOUBLE_EQ(*second.nodes_cost, 12);
  EXPECT_DOUBLE_EQ(*second.unused_nodes_cost, 6);
}

TEST(FairnessReport, ShowsHowEvenlyWaitingAndGpuHoursAreDivided) {
  // Ada had three times bob's GPU-hours, and waited as long as she ran.
  const auto report =
      ReportFairness({Ran("ada", 3, 0, 60, 120), Ran("bob", 1, 0, 0, 60)}, ReportBy::kUser, {At(0), At(600)});
  ASSERT_EQ(report.rows.size(), 2u);
  EXPECT_EQ(report.rows[0].group, "ada");
  EXPECT_DOUBLE_EQ(report.rows[0].slowdown_median, 2);
  EXPECT_DOUBLE_EQ(report.rows[0].wait_longest_s, 3600);
  EXPECT_DOUBLE_EQ(report.rows[1].slowdown_median, 1);
  EXPECT_DOUBLE_EQ(report.evenness_of_share, 16.0 / (2 * 10));
  EXPECT_DOUBLE_EQ(report.evenness_of_slowdown, 9.0 / (2 * 5));
}

TEST(FairnessReport, AVeryShortRunHasNoInfiniteSlowdown) {
  ReportedRun run = Ran("ada", 1, 0, 10, 10);
  const auto report = ReportFairness({run}, ReportBy::kUser, {At(0), At(60)});
  ASSERT_EQ(report.rows.size(), 1u) << "it ended when it started, and it started in the stretch";
  EXPECT_DOUBLE_EQ(report.rows[0].slowdown_median, (600 + 10) / 10.0);
}

TEST(FairnessReport, AnHourCountsTheJobsThatStartedInItWithTheirWholeRun) {
  // One job waited an hour and ran for two; the other one ran at once.
  const auto report =
      ReportFairness({Ran("ada", 3, 0, 60, 180), Ran("bob", 1, 5, 5, 60)}, ReportBy::kHour, {At(0), At(600)});
  ASSERT_EQ(report.rows.size(), 2u) << "nothing started in the third";
  EXPECT_EQ(report.rows[0].group, "1970-01-02T00");
  EXPECT_DOUBLE_EQ(report.rows[0].slowdown_median, 1);
  EXPECT_EQ(report.rows[1].group, "1970-01-02T01") << "in their order";
  EXPECT_DOUBLE_EQ(report.rows[1].slowdown_median, 1.5) << "of its whole run, not of what lies in the hour";
  EXPECT_DOUBLE_EQ(report.rows[1].gpu_hours, 3);
}

TEST(Reports, WithoutJobsTheyAreEmptyAndFair) {
  EXPECT_TRUE(ReportUsage({}, ReportBy::kName, {At(0), At(1)}).rows.empty());
  EXPECT_EQ(ReportFairness({}, ReportBy::kUser, {At(0), At(1)}).evenness_of_share, 1);
  EXPECT_EQ(ReportByNames(kUsageIsBy), "user, team, name, model, pool, node, hour or job");
  EXPECT_EQ(ReportByNames(kWaitingIsBy), "user, team, name, model, pool or hour");
  EXPECT_EQ(ReportByNames(kUsesAreBy), "user, team, name, model, pool, node, hour or job");
  EXPECT_FALSE(ReportByFromName("colour"));
}

}  // namespace usage_report_test
}  // namespace divvy
