#include "node/job_environment.h"

#include <gtest/gtest.h>

namespace divvy {
namespace job_environment_test {

JobRecord Record() {
  JobRecord record;
  record.id = JobId(17);
  record.name = "train";
  record.user.name = "ada";
  return record;
}

TEST(FillPattern, ExpandsEveryLetterThatSlurmScriptsUse) {
  JobRecord record = Record();
  record.array = JobId(12);
  record.array_index = 4;
  const NodeNames node{"box", ""};
  EXPECT_EQ(FillPattern("%x-%j.out", record, node), "train-17.out");
  EXPECT_EQ(FillPattern("%A_%a %4j %u@%N %%", record, node), "12_4 0017 ada@box %");
  EXPECT_EQ(FillPattern("100%", record, node), "100%");
  record.array_index = 127;
  EXPECT_EQ(FillPattern("%a-%b", record, node), "127-7");
  EXPECT_EQ(FillPattern("%b", Record(), node), "4") << "the last digit of what %a is without an array";
  JobRecord climbs = record;
  climbs.name = "../../etc/x";
  EXPECT_EQ(FillPattern("logs/%x.out", climbs, node), "logs/.._.._etc_x.out");
  EXPECT_EQ(FillPattern("%q%", record, node), "%q%");
}

TEST(Environment, AJobWithoutGpusSeesNone) {
  const auto environment = DivvyEnvironment(Record(), JobSpec(), {}, {}, {});
  EXPECT_NE(std::find(environment.begin(), environment.end(), "CUDA_VISIBLE_DEVICES="), environment.end());
}

TEST(Environment, IndicesAndUuidsAreInTheSameOrder) {
  JobRecord record = Record();
  record.gpus = GpuSet::Of({2, 0});
  std::vector<GpuFacts> gpus(3);
  for (std::size_t i = 0; i < 3; ++i) gpus[i].uuid = "GPU-" + std::to_string(i);
  const auto environment = DivvyEnvironment(record, JobSpec(), gpus, {{"lr", "0.1"}}, {});
  for (const std::string line : {"CUDA_VISIBLE_DEVICES=0,2", "DIVVY_GPU_UUIDS=GPU-0,GPU-2", "DIVVY_GPU_NUMA=-1,-1",
                                 "CUDA_DEVICE_ORDER=PCI_BUS_ID", "DIVVY_PARAM_lr=0.1"}) {
    EXPECT_NE(std::find(environment.begin(), environment.end(), line), environment.end()) << line;
  }
}

TEST(Environment, AGangThatContinuesAfterALossKnowsForHowLong) {
  JobRecord record = Record();
  JobSpec spec;
  const auto grace = [&] {
    for (const std::string& entry : DivvyEnvironment(record, spec, {}, {}, {})) {
      if (entry.starts_with("DIVVY_STALE_GRACE=")) return entry.substr(entry.find('=') + 1);
    }
    return std::string();
  };
  spec.stale_grace = std::chrono::minutes(5);
  EXPECT_EQ(grace(), "") << "it is on one node";
  record.request.nodes = 2;
  EXPECT_EQ(grace(), "300");
  spec.stale_grace = Duration(-1);
  EXPECT_EQ(grace(), "never");
  spec.stale_grace = Duration(0);
  EXPECT_EQ(grace(), "");
}

TEST(Environment, LaterLayersWin) {
  const std::vector<std::vector<std::string>> layers = {{"A=1", "B=2"}, {"B=3", "C=4"}};
  EXPECT_EQ(MergeEnvironment(layers), (std::vector<std::string>{"A=1", "B=3", "C=4"}));
}

}  // namespace job_environment_test
}  // namespace divvy
