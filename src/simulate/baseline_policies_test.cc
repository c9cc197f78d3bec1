#include "simulate/baseline_policies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "simulate/metrics.h"
#include "simulate/traces/trace_formats.h"
#include "simulate/traces/trace_time.h"

namespace divvy::simulate {
namespace baseline_policies_test {

Time At(double seconds) { return TimeFromSeconds(seconds); }

struct Asked {
  double submit = 0, runtime = 0;
  int gpus = 1;
  std::string team;
};

Workload Jobs(const std::vector<Asked>& asked) {
  Workload workload;
  for (const Asked& one : asked) {
    TraceJob job;
    job.submit = At(one.submit);
    job.runtime = At(one.runtime).time_since_epoch();
    job.gpus = one.gpus;
    job.team = one.team;
    workload.jobs.push_back(job);
  }
  return workload;
}

/// The start of each job in seconds. -1: never.
std::vector<double> Starts(const Workload& workload, const TraceCluster& cluster, std::string_view rule) {
  const auto rules = MakeHouseRules(cluster, *HouseRuleFromName(rule)).value();
  const Replayed replayed = Replay(workload, *rules).value();
  std::vector<double> starts(workload.jobs.size(), -1);
  for (const Outcome& outcome : replayed.outcomes) starts[outcome.job] = ToSeconds(outcome.first_start);
  return starts;
}

TEST(BaselinePolicies, StrictStopsAtTheFirstJobThatDoesNotFitAndSkipContinues) {
  const TraceCluster cluster = ParseCluster("1x8").value();
  const Workload workload = Jobs({{0, 100, 6}, {1, 10, 4}, {2, 10, 2}});
  EXPECT_EQ(Starts(workload, cluster, "fifo"), (std::vector<double>{0, 100, 100}));
  EXPECT_EQ(Starts(workload, cluster, "fifo-skip"), (std::vector<double>{0, 100, 2}));
}

TEST(BaselinePolicies, OrderByRunTimeOrByGpuTime) {
  const TraceCluster cluster = ParseCluster("1x8").value();
  const Workload workload = Jobs({{0, 50, 8}, {1, 30, 1}, {2, 10, 8}});
  EXPECT_EQ(Starts(workload, cluster, "fifo"), (std::vector<double>{0, 50, 80}));
  EXPECT_EQ(Starts(workload, cluster, "sjf"), (std::vector<double>{0, 60, 50}));
  EXPECT_EQ(Starts(workload, cluster, "gtf"), (std::vector<double>{0, 50, 80}));
}

TEST(BaselinePolicies, TiesGoToTheEarlierJob) {
  const TraceCluster cluster = ParseCluster("1x8").value();
  EXPECT_EQ(Starts(Jobs({{0, 5, 8}, {1, 9, 8}, {2, 9, 8}}), cluster, "sjf"), (std::vector<double>{0, 5, 14}));
}

TEST(BaselinePolicies, PlaceOnTheFullestNodeThatFits) {
  const auto rules = MakeHouseRules(ParseCluster("3x8").value(), {}).value();
  const Workload workload = Jobs({{0, 1, 5}, {0, 1, 6}, {0, 1, 2}, {0, 1, 3}, {0, 1, 1}});
  for (JobIndex i = 0; i < 5; ++i) rules->Submit(i, workload.jobs[i], At(0));
  std::vector<std::uint32_t> nodes;
  for (const Started& started : rules->Decide(At(0)).starts) nodes.push_back(started.gpus.front().node);
  // 5 go on the first; 6 on the second; 2 where 2 are left; 3 where 3 are left; 1 on the last.
  EXPECT_EQ(nodes, (std::vector<std::uint32_t>{0, 1, 1, 0, 2}));
}

TEST(BaselinePolicies, WideJobsUseWholeNodesAndTheFullestForTheRest) {
  const auto rules = MakeHouseRules(ParseCluster("4x8").value(), {}).value();
  const Workload workload = Jobs({{0, 1, 4}, {0, 1, 20}, {0, 1, 12}});
  for (JobIndex i = 0; i < 3; ++i) rules->Submit(i, workload.jobs[i], At(0));
  const auto starts = rules->Decide(At(0)).starts;
  ASSERT_EQ(starts.size(), 2u) << "12 need a whole node and 4 more; only one whole node is left";
  EXPECT_EQ(starts[1].gpus, (std::vector<NodeGpus>{{1, 8}, {2, 8}, {0, 4}}));
}

TEST(BaselinePolicies, TeamsStayOnTheirNodes) {
  TraceCluster cluster;
  cluster.groups = {{.count = 1, .gpus = 8, .team = "a"}, {.count = 2, .gpus = 4}};
  const Workload workload = Jobs({{0, 10, 8, "a"}, {1, 10, 1, "a"}, {2, 10, 8, "b"}, {3, 1, 16, "b"}});
  EXPECT_EQ(Starts(workload, cluster, "fifo"), (std::vector<double>{0, 10, 2, -1}));
  cluster.groups[1].team = "a";
  EXPECT_FALSE(MakeHouseRules(cluster, {})) << "nodes of two sizes in one queue";
}

// Published results of plain policies: mean JCT and mean wait in seconds, in the order of kColumns. The traces are not
// part of the product: DIVVY_TRACES names the folder that has helios/ and philly/.
struct Published {
  const char* what;
  const char* nodes;  // Empty: the nodes of the trace.
  struct {
    int jct, wait;
  } values[6];
};
constexpr const char* kColumns[] = {"fifo", "fifo-skip", "sjf", "sjf-skip", "gtf", "gtf-skip"};

void Compare(const Workload& workload, const Published& published) {
  const TraceCluster cluster = *published.nodes == 0 ? *workload.cluster : ParseCluster(published.nodes).value();
  for (std::size_t i = 0; i < std::size(kColumns); ++i) {
    const auto rules = MakeHouseRules(cluster, *HouseRuleFromName(kColumns[i])).value();
    const Replayed replayed = Replay(workload, *rules).value();
    EXPECT_TRUE(replayed.unfinished.empty());
    const RunMetrics metrics = Measure(workload, cluster, replayed);
    if (published.values[i].jct == 0) continue;
    EXPECT_NEAR(metrics.all.jct_seconds.mean, published.values[i].jct, .51) << published.what << " " << kColumns[i];
    EXPECT_NEAR(metrics.all.wait_seconds.mean, published.values[i].wait, .51) << published.what << " " << kColumns[i];
  }
}

TEST(BaselinePolicies, MatchPublishedRunsToTheSecond) {
  const char* const folder = std::getenv("DIVVY_TRACES");
  if (folder == nullptr || !std::filesystem::exists(std::string(folder) + "/helios"))
    GTEST_SKIP() << "no published traces: DIVVY_TRACES names their folder (scripts/traces helios says where they are)";
  const std::string traces = folder;
  const auto slice = ReadWorkload("helios", {traces + "/helios/venus_2vc_sept_full_duration.csv.gz"}).value();
  EXPECT_EQ(slice.jobs.size(), 1867u);
  Compare(
      slice,
      {"two queues of Venus", "", {{16534, 10883}, {5902, 252}, {6273, 622}, {5892, 241}, {5899, 248}, {5892, 241}}});
  auto venus = ReadWorkload("helios", {traces + "/helios/venus_gpu_jobs.csv.gz"}).value();
  CutTo(venus, *ParseDateTime("2020-09-01"), *ParseDateTime("2020-09-27"));
  EXPECT_EQ(venus.jobs.size(), 24171u);
  Compare(venus, {"Venus on 96 nodes",
                  "96x8",
                  {{20659, 12246}, {10172, 1758}, {9472, 1058}, {9577, 1163}, {9103, 689}, {10653, 2239}}});
  Compare(venus, {"Venus on 80 nodes",
                  "80x8",
                  {{162123, 153709}, {31038, 22624}, {16805, 8391}, {24530, 16116}, {11100, 2686}, {25004, 16590}}});
  auto philly = ReadWorkload("philly", {traces + "/philly/philly_jobs_pollux.csv.gz"}).value();
  CutTo(philly, *ParseDateTime("2017-10-01"), *ParseDateTime("2017-12-01"));
  EXPECT_EQ(philly.jobs.size(), 68510u);
  Compare(philly, {"Philly on 80 nodes",
                   "80x8",
                   {{33355, 21875}, {15331, 3850}, {13262, 1782}, {12772, 1291}, {12965, 1485}, {12896, 1416}}});
  Compare(philly, {"Philly on 96 nodes", "96x8", {{12439, 959}, {11779, 298}, {11750, 270}, {11713, 233}, {}, {}}});
}

}  // namespace baseline_policies_test
}  // namespace divvy::simulate
