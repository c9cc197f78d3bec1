#include "daemon/waste/waste_report.h"

#include <gtest/gtest.h>

namespace divvy {
namespace waste_report_test {

ReportedRun Ran(std::uint64_t id, const std::string& user, double gpus, int gpu_count, int cpus = 0) {
  ReportedRun run;
  run.id = JobId(id);
  run.user = user;
  run.model = "H100";
  run.gpus = gpus;
  run.gpu_count = gpu_count;
  if (gpu_count > 0) run.share = gpus / gpu_count;
  run.cpus = cpus;
  return run;
}

samples::JobUse Used(int machines, double hours, double mean, double idle_hours, double memory, double cores) {
  samples::JobUse use;
  use.machines = machines;
  use.seconds = use.cpu_seconds = hours * 3600 * machines;
  use.use_seconds = use.seconds * mean;
  use.idle_seconds = idle_hours * 3600 * machines;
  use.memory_peak = memory;
  use.core_seconds = cores * use.cpu_seconds;
  return use;
}

const ReportStretch kStretch = {TimeFromSeconds(1000), TimeFromSeconds(1'000'000)};

class WasteReportTest : public testing::Test {
 protected:
  // Four GPUs for ten hours at 50%; half a GPU at 25% of a whole one; an idle gang on two nodes.
  std::vector<ReportedRun> runs_ = {Ran(1, "ada", 4, 4, 8), Ran(2, "bob", 0.5, 1), Ran(3, "bob", 16, 16),
                                    Ran(4, "cyd", 2, 2), Ran(5, "cyd", 0, 0)};
  JobUses uses_ = {{1000,
                    {{1, Used(1, 10, 0.5, 1, 200e9, 4)},
                     {2, Used(1, 4, 0.25, 0, 10e9, 1)},
                     {3, Used(2, 1, 0, 1, 80e9, 1)},
                     {5, Used(1, 1, 0, 0, 0, 1)}}}};
};

TEST_F(WasteReportTest, AWholeNodeAllocationOfAGangIsNotAFraction) {
  JobRecord gang;
  gang.id = JobId(9);
  gang.state = JobState::kSucceeded;
  gang.started = TimeFromSeconds(2000);
  gang.ended = TimeFromSeconds(5600);
  for (const char* name : {"n1", "n2"}) {
    NodeAllocation& allocation = gang.gang.emplace_back();
    allocation.node = name;
    allocation.gpus = GpuSet::FirstN(4);
  }
  std::vector<ReportedRun> runs;
  AddRunOf(gang, ReportBy::kNode, "head", runs);
  const auto report = ReportWaste(runs, {{1000, {{9, Used(2, 1, 0.4, 0, 0, 1)}}}}, ReportBy::kNode, kStretch, {});
  ASSERT_EQ(report.rows.size(), 2U);
  for (const auto& row : report.rows) {
    EXPECT_DOUBLE_EQ(row.gpu_hours, 4) << row.group;
    EXPECT_DOUBLE_EQ(row.lost_gpu_hours, 2.4) << row.group;
  }
}

TEST_F(WasteReportTest, CountsUnusedTimeByGroup) {
  const auto report = ReportWaste(runs_, uses_, ReportBy::kUser, kStretch,
                                  [](const std::string& model) { return model == "H100" ? 2.0 : 0; });
  ASSERT_EQ(report.rows.size(), 2U) << "nothing was seen of cyd's, or it had no GPU";
  EXPECT_EQ(report.rows[0].group, "ada");
  EXPECT_DOUBLE_EQ(report.rows[0].gpu_hours, 40);
  EXPECT_DOUBLE_EQ(report.rows[0].lost_gpu_hours, 20);
  EXPECT_DOUBLE_EQ(report.rows[0].idle_gpu_hours, 4);
  EXPECT_DOUBLE_EQ(*report.rows[0].lost_cost, 40);
  EXPECT_EQ(report.rows[1].group, "bob");
  EXPECT_DOUBLE_EQ(report.rows[1].gpu_hours, 2 + 16);
  EXPECT_DOUBLE_EQ(report.rows[1].lost_gpu_hours, 1 + 16) << "a quarter of a GPU is half of a half";
  EXPECT_DOUBLE_EQ(report.rows[1].lost_share, 17.0 / 18);
  EXPECT_DOUBLE_EQ(report.lost_gpu_hours, 37);
  EXPECT_FALSE(ReportWaste(runs_, uses_, ReportBy::kUser, kStretch, nullptr).lost_cost);
}

TEST_F(WasteReportTest, TheLossOfAJobMatchesItsRow) {
  runs_[0].display_id = "1";
  auto report = ReportWaste(runs_, uses_, ReportBy::kJob, kStretch, nullptr);
  const auto lost_of = [&](const std::string& group) {
    for (const auto& row : report.rows) {
      if (row.group == group) return row.lost_gpu_hours;
    }
    return -1.0;
  };
  for (std::uint64_t id : {1, 2, 3}) {
    wire::WastefulJob& job = report.now.jobs.emplace_back();
    job.id = JobId(id);
    job.start_time = ToSeconds(kStretch.since) + 1;
    job.lost_gpu_hours = 0.014;
    job.lost_cost = 0.1;
  }
  report.now.jobs[1].start_time = ToSeconds(kStretch.since) - 1;
  const PriceOfModel price = [](const std::string&) { return 2.0; };
  CountNowAsRows(runs_, uses_, kStretch, price, {JobId(1), JobId(2)}, report);
  const auto& jobs = report.now.jobs;
  EXPECT_DOUBLE_EQ(jobs[0].lost_gpu_hours, lost_of("1"));
  EXPECT_DOUBLE_EQ(jobs[0].lost_cost.value_or(0), 2 * jobs[0].lost_gpu_hours);
  EXPECT_GT(jobs[0].gpu_hours, jobs[0].lost_gpu_hours);
  EXPECT_DOUBLE_EQ(jobs[1].lost_gpu_hours, 0.014) << "the stretch has only a part of its run";
  EXPECT_DOUBLE_EQ(jobs[2].lost_gpu_hours, 0.014) << "its row counts the runs before this one";
}

TEST_F(WasteReportTest, GroupedByJobTheWorstIsFirstWithItsOwner) {
  runs_[2].name = "gang";
  runs_[2].state = JobState::kFailed;
  runs_[0].display_id = "1";
  runs_[1].display_id = "2";
  runs_[2].display_id = "3";
  const auto report = ReportWaste(runs_, uses_, ReportBy::kJob, kStretch, nullptr);
  ASSERT_EQ(report.rows.size(), 3U);
  EXPECT_EQ(report.rows[0].group, "1") << "20 GPU-hours";
  EXPECT_EQ(report.rows[1].group, "3") << "16";
  EXPECT_EQ(report.rows[2].group, "2") << "one";
  ASSERT_TRUE(report.rows[1].job);
  EXPECT_EQ(report.rows[1].job->id, JobId(3));
  EXPECT_EQ(report.rows[1].job->name, "gang");
  EXPECT_EQ(report.rows[1].job->user, "bob");
  EXPECT_EQ(report.rows[1].job->state, "failed");
  EXPECT_FALSE(ReportWaste(runs_, uses_, ReportBy::kUser, kStretch, nullptr).rows[0].job);
  EXPECT_FALSE(report.rows[0].is_small);
  runs_[0].started = TimeFromSeconds(2000);
  runs_[0].ended = TimeFromSeconds(2300);
  const auto with_short = ReportWaste(runs_, uses_, ReportBy::kJob, kStretch, nullptr);
  EXPECT_TRUE(with_short.rows[0].is_small) << "within the grace";
  EXPECT_FALSE(with_short.rows[1].is_small);
  EXPECT_DOUBLE_EQ(with_short.lost_gpu_hours, report.lost_gpu_hours) << "it counts all the same";
  const auto efficiency = ReportEfficiency(runs_, uses_, ReportBy::kJob, kStretch);
  ASSERT_EQ(efficiency.rows.size(), 3U);
  EXPECT_EQ(efficiency.rows[1].group, "3") << "what it did not use counts";
}

TEST_F(WasteReportTest, WithManyJobsTheWorstAreListedAndAllAreCounted) {
  std::vector<ReportedRun> runs;
  JobUses uses;
  for (std::uint64_t id = 1; id <= kMostJobRows + 10; ++id) {
    runs.push_back(Ran(id, "ada", 1, 1));
    runs.back().display_id = std::to_string(id);
    uses[0][id] = Used(1, static_cast<double>(id), 0, 0, 0, 0);
  }
  const auto report = ReportWaste(runs, uses, ReportBy::kJob, kStretch, nullptr);
  ASSERT_EQ(report.rows.size(), kMostJobRows);
  EXPECT_EQ(report.rows[0].group, "1010");
  EXPECT_DOUBLE_EQ(report.lost_gpu_hours, 1010.0 * 1011 / 2);
}

TEST_F(WasteReportTest, HoursStayInOrder) {
  constexpr samples::Second kFirst = 1'790'000'000 / 3600 * 3600;
  const JobUses uses = {{kFirst, {{1, Used(1, 1, 0.75, 0, 0, 4)}}},
                        {kFirst + 3600, {{1, Used(1, 1, 0, 1, 0, 0)}, {3, Used(2, 0.5, 1, 0, 0, 0)}}}};
  const auto report = ReportWaste(runs_, uses, ReportBy::kHour, kStretch, nullptr);
  ASSERT_EQ(report.rows.size(), 2U);
  EXPECT_EQ(report.rows[0].group, HourName(TimeFromSeconds(static_cast<double>(kFirst))));
  EXPECT_DOUBLE_EQ(report.rows[0].lost_gpu_hours, 1);
  EXPECT_EQ(report.rows[0].jobs, 1);
  EXPECT_DOUBLE_EQ(report.rows[1].gpu_hours, 4 + 8);
  EXPECT_DOUBLE_EQ(report.rows[1].lost_gpu_hours, 4);
  EXPECT_EQ(report.rows[1].jobs, 2);
  EXPECT_DOUBLE_EQ(report.gpu_hours, 16);
  const auto efficiency = ReportEfficiency(runs_, uses, ReportBy::kHour, kStretch);
  ASSERT_EQ(efficiency.rows.size(), 2U);
  EXPECT_LT(efficiency.rows[0].group, efficiency.rows[1].group);
  EXPECT_DOUBLE_EQ(efficiency.rows[0].utilization, 0.75);
}

TEST_F(WasteReportTest, ShowsTheUtilizationOfGpusAndCores) {
  const auto report = ReportEfficiency(runs_, uses_, ReportBy::kUser, kStretch);
  ASSERT_EQ(report.rows.size(), 2U);
  EXPECT_DOUBLE_EQ(report.rows[0].utilization, 0.5);
  EXPECT_DOUBLE_EQ(report.rows[0].memory_peak_bytes, 50e9) << "of one GPU";
  EXPECT_DOUBLE_EQ(report.rows[0].cpu_cores, 4);
  EXPECT_DOUBLE_EQ(*report.rows[0].cpu_use, 0.5);
  EXPECT_FALSE(report.rows[1].cpu_use) << "no cores were asked for";
  EXPECT_DOUBLE_EQ(report.rows[1].memory_peak_bytes, 10e9);
  EXPECT_DOUBLE_EQ(report.utilization, (20 + 1) / 58.0);
}

TEST(WasteReportOfAGang, PeakMemoryIsThatOfTheFullestGpu) {
  samples::JobUse use = Used(1, 1, 0.5, 0, 30e9, 1);
  std::vector<ReportedRun> runs = {Ran(1, "ada", 2, 2)};
  EXPECT_DOUBLE_EQ(ReportEfficiency(runs, {{1000, {{1, use}}}}, ReportBy::kUser, kStretch).rows.at(0).memory_peak_bytes,
                   15e9)
      << "where no more is known";
  use.memory_most = 30e9;
  EXPECT_DOUBLE_EQ(ReportEfficiency(runs, {{1000, {{1, use}}}}, ReportBy::kUser, kStretch).rows.at(0).memory_peak_bytes,
                   30e9);
}

TEST(WasteReportOfAPart, AnIdleBorrowerLosesItsUnusedFraction) {
  // A quarter GPU that used 80% of the GPU for half an hour, and nothing for the other half.
  const auto report = ReportWaste({Ran(1, "ada", 0.25, 1)}, {{1000, {{1, Used(1, 1, 0.4, 0.5, 1e9, 1)}}}},
                                  ReportBy::kUser, kStretch, nullptr);
  ASSERT_EQ(report.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(report.rows[0].idle_gpu_hours, 0.125);
  EXPECT_DOUBLE_EQ(report.rows[0].lost_gpu_hours, 0.125) << "what was at 0% is a part of what was lost";
}

}  // namespace waste_report_test
}  // namespace divvy
