// The experiment on clusters that are small enough to know the result.
#include "simulate/fill.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace divvy::simulate {
namespace fill_test {

using placement::kAnyModel;
using placement::kGpuParts;
using placement::MakeNode;
using placement::Shape;

OpenbNodes Cluster(int nodes, int gpus, int cpu_milli = 96'000) {
  OpenbNodes cluster;
  cluster.models = {"A"};
  for (int i = 0; i < nodes; ++i) cluster.nodes.push_back(MakeNode(cpu_milli, 65'536, gpus, 0));
  return cluster;
}

Shape Ask(int gpus, int parts, int cpu_milli = 1000) {
  return {cpu_milli, 0, static_cast<std::int16_t>(gpus), static_cast<std::int16_t>(parts), kAnyModel};
}

std::vector<OpenbJob> Jobs(const std::vector<std::pair<int, Shape>>& kinds) {
  std::vector<OpenbJob> jobs;
  for (const auto& [count, shape] : kinds) {
    for (int i = 0; i < count; ++i) jobs.push_back({"job-" + std::to_string(jobs.size()), shape});
  }
  return jobs;
}

FillOptions Options(const std::string& policy, unsigned seeds = 4) {
  FillOptions options;
  options.policy = policy;
  for (unsigned seed = 0; seed < seeds; ++seed) options.seeds.push_back(seed);
  return options;
}

FillResult Fill(const OpenbNodes& nodes, const std::vector<OpenbJob>& jobs, const FillOptions& options) {
  auto result = RunFill(nodes, jobs, options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? *result : FillResult();
}

TEST(Arrivals, ShuffleTheTraceAndAppendCopiesUpToTheDemand) {
  const auto jobs = Jobs({{20, Ask(1, 5000)}, {10, Ask(1, kGpuParts)}});
  const auto arrivals = Arrivals(jobs, 20 * kGpuParts, 1.3, 7);
  std::map<std::uint32_t, int> first;
  for (std::size_t i = 0; i < 30; ++i) ++first[arrivals[i]];
  EXPECT_EQ(first.size(), 30u) << "the trace itself comes first, each job once";
  std::int64_t asked = 0;
  for (const std::uint32_t job : arrivals) asked += jobs[job].shape.gpu_parts();
  EXPECT_LE(asked, 26 * kGpuParts);
  EXPECT_GT(asked, 25 * kGpuParts);
  EXPECT_EQ(Arrivals(jobs, 20 * kGpuParts, 1.3, 7), arrivals);
  EXPECT_NE(Arrivals(jobs, 20 * kGpuParts, 1.3, 8), arrivals);
}

TEST(Arrivals, ThinATraceThatRequestsTooMuch) {
  const auto jobs = Jobs({{40, Ask(1, kGpuParts)}});
  const auto arrivals = Arrivals(jobs, 20 * kGpuParts, 1.3, 1);
  EXPECT_EQ(arrivals.size(), 26u);
  EXPECT_EQ(std::set<std::uint32_t>(arrivals.begin(), arrivals.end()).size(), 26u);
}

TEST(Fill, WholeGpuJobsFillTheClusterUnderEveryPolicy) {
  for (const std::string_view policy : FillPolicies()) {
    const FillResult result = Fill(Cluster(10, 4), Jobs({{50, Ask(1, kGpuParts)}}), Options(std::string(policy)));
    EXPECT_EQ(result.gpus, 40);
    EXPECT_DOUBLE_EQ(*result.MeanAt(50), 50) << policy;
    EXPECT_DOUBLE_EQ(*result.MeanAt(100), 100) << policy;
    EXPECT_DOUBLE_EQ(*result.MeanAt(130), 100) << policy;
    EXPECT_DOUBLE_EQ(result.DeviationAt(130), 0) << policy;
    EXPECT_EQ(result.MeanAt(131), std::nullopt);
    for (const FillRun& run : result.runs) EXPECT_EQ(run.refused, 12) << policy;
  }
}

TEST(Fill, TheResultDoesNotDependOnTheThreadCount) {
  const auto jobs =
      Jobs({{90, Ask(1, 3000)}, {40, Ask(1, 7000, 9000)}, {20, Ask(2, kGpuParts)}, {10, Ask(0, 0, 30'000)}});
  for (const std::string policy : {"default", "random", "online"}) {
    FillOptions options = Options(policy, 6);
    const FillResult one = Fill(Cluster(20, 4), jobs, options);
    options.threads = 3;
    int done = 0;
    options.on_run_done = [&done] { ++done; };
    const FillResult three = Fill(Cluster(20, 4), jobs, options);
    EXPECT_EQ(done, 6);
    for (std::size_t run = 0; run < 6; ++run) {
      EXPECT_EQ(one.runs[run].seed, run);
      EXPECT_EQ(one.runs[run].allocation_percent, three.runs[run].allocation_percent) << policy;
    }
  }
}

/// Fractions that fit together badly, and half of the nodes are short of CPUs.
FillResult Contested(const std::string& policy) {
  OpenbNodes nodes = Cluster(40, 4, 24'000);
  for (std::size_t i = 0; i < 20; ++i) nodes.nodes[i] = MakeNode(96'000, 65'536, 4, 0);
  return Fill(nodes,
              Jobs({{60, Ask(1, 8100, 3000)},
                    {60, Ask(1, 4700, 12'000)},
                    {50, Ask(1, 3300, 4000)},
                    {60, Ask(1, kGpuParts, 16'000)}}),
              Options(policy, 5));
}

TEST(Fill, PricedPlacementBeatsThePlainGradientWhichBeatsRandom) {
  const double chance = *Contested("random").MeanAt(100);
  const double plain = *Contested("fgd").MeanAt(100);
  const double priced = *Contested("default").MeanAt(100);
  EXPECT_GT(plain, chance + 1);
  EXPECT_GT(priced, plain + 1);
  EXPECT_GT(*Contested("online").MeanAt(100), plain);
}

TEST(Fill, MigratingJobsLetsMoreJobsStart) {
  // Small fractions are spread over the GPUs, so whole-GPU jobs find no free GPU.
  const auto jobs = Jobs({{40, Ask(1, 3000)}, {28, Ask(1, kGpuParts)}});
  FillOptions options = Options("spread");
  const FillResult still = Fill(Cluster(20, 2), jobs, options);
  options.moves_per_job = 3;
  const FillResult moved = Fill(Cluster(20, 2), jobs, options);
  EXPECT_GT(*moved.MeanAt(100), *still.MeanAt(100) + 5);
  for (std::size_t run = 0; run < still.runs.size(); ++run) {
    EXPECT_EQ(still.runs[run].moves, 0);
    EXPECT_GT(moved.runs[run].saved, 0);
    EXPECT_GE(moved.runs[run].moves, moved.runs[run].saved);
  }
}

TEST(Fill, RefusesAnUnknownPolicy) {
  EXPECT_FALSE(RunFill(Cluster(1, 1), Jobs({{1, Ask(1, kGpuParts)}}), Options("no-such")));
}

class OpenbFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "divvy-openb-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& text) {
    const std::string path = folder_ + "/" + std::to_string(++files_) + ".csv";
    std::ofstream(path) << text;
    return path;
  }
  Result<OpenbNodes> Nodes(const std::string& lines) {
    return ReadOpenbNodes(File("sn,cpu_milli,memory_mib,gpu,model\n" + lines));
  }

  std::string folder_;
  int files_ = 0;
};

TEST_F(OpenbFiles, AreReadAsPublished) {
  const auto nodes = Nodes("n0,64000,262144,2,P100\nn1,96000,393216,8,G2\nn2,8000,1024,1,P100\n");
  ASSERT_TRUE(nodes);
  EXPECT_EQ(nodes->models, (std::vector<std::string>{"P100", "G2"}));
  EXPECT_EQ(nodes->capacity_parts(), 11 * placement::kGpuParts);
  EXPECT_EQ(nodes->capacity_by_model(), (std::vector<std::int64_t>{30'000, 80'000}));
  const auto jobs = ReadOpenbJobs(File("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
                                       "b,6000,12288,1,460,G2|T4,LS\n"
                                       "a,12000,16384,2,1000,,LS\n"
                                       "c,1000,1024,0,0,,BE\n"
                                       "d,1000,1024,1,1000,T4,BE\n"),
                                  *nodes);
  ASSERT_TRUE(jobs) << jobs.error().message;
  EXPECT_EQ((*jobs)[0].shape, (Shape{12'000, 16'384, 2, 10'000, kAnyModel}));
  EXPECT_EQ((*jobs)[1].shape, (Shape{6000, 12'288, 1, 4600, 0b10}));
  EXPECT_EQ((*jobs)[2].shape, (Shape{1000, 1024, 0, 0, kAnyModel}));
  EXPECT_EQ((*jobs)[3].shape.models, 0u) << "no node has a T4";
}

TEST_F(OpenbFiles, JobsWithoutAModelRunOnAnyModel) {
  const auto jobs =
      ReadOpenbJobs(File("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nx,1,1,1,1000\n"), *Nodes("n,1,1,1,A\n"));
  ASSERT_TRUE(jobs);
  EXPECT_EQ(jobs->front().shape.models, kAnyModel);
}

TEST_F(OpenbFiles, NameTheInvalidLine) {
  const OpenbNodes nodes = *Nodes("n,1,1,1,A\n");
  const auto message = [&](const std::string& line) {
    const auto jobs = ReadOpenbJobs(File("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + line + "\n"), nodes);
    return jobs ? "" : jobs.error().message.substr(folder_.size());
  };
  EXPECT_EQ(message("x,1,1,1,0"), "/2.csv:2: num_gpu is above 0, but gpu_milli is 0");
  EXPECT_EQ(message("x,1,1,1,1001"), "/3.csv:2: gpu_milli '1001' is not a whole number from 0 to 1000");
  EXPECT_EQ(message("x,1,1,65,1000"), "/4.csv:2: num_gpu '65' is not a whole number from 0 to 64");
  EXPECT_EQ(message("x,1,1,0,0"), "/5.csv: no job requests a GPU");
  EXPECT_EQ(Nodes("n,1,1,0,A\n").error().message.substr(folder_.size()), "/6.csv: no node has a GPU");
}

}  // namespace fill_test
}  // namespace divvy::simulate
