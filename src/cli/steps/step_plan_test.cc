#include "cli/steps/step_plan.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace step_plan_test {

using Texts = std::vector<std::string>;

JobAround TwoGpus(Texts more = {}) {
  Texts environment = {"CUDA_VISIBLE_DEVICES=4,5", "DIVVY_GPUS=4,5",       "DIVVY_GPU_NUMA=0,1",
                       "DIVVY_JOB_ID=17",          "DIVVY_JOB_NAME=train", "SLURM_PROCID=0"};
  environment.insert(environment.end(), more.begin(), more.end());
  return ReadJobAround(environment);
}

Texts Values(const StepOptions& asked, const JobAround& around, const std::string& name) {
  StepOptions ask = asked;
  ask.commands = {{"true"}};
  TaskGround ground;
  for (const StepGpu& gpu : around.gpus) ground.gpu_numa_nodes.push_back(gpu.numa_node);
  Texts values;
  for (const StepTask& task : MakeTasks(ask, around, around.gpus, ground, {"3", "box", "eva"}))
    values.push_back(EnvironmentValue(task.environment, name));
  return values;
}

StepOptions Native(int tasks, int gpus_per_task) {
  StepOptions ask;
  ask.is_slurm = false;
  ask.deal.tasks = tasks;
  ask.deal.gpus_per_task = gpus_per_task;
  return ask;
}

TEST(StepPlan, RankVariablesAreThoseOfTorchrun) {
  EXPECT_EQ(Values(Native(2, 0), TwoGpus(), "RANK"), (Texts{"0", "1"}));
  EXPECT_EQ(Values(Native(2, 0), TwoGpus(), "LOCAL_RANK"), (Texts{"0", "1"}));
  EXPECT_EQ(Values(Native(2, 0), TwoGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"4,5", "4,5"}));
  EXPECT_EQ(Values(Native(2, 0), TwoGpus(), "WORLD_SIZE"), (Texts{"2", "2"}));
  EXPECT_EQ(Values(Native(1, 0), TwoGpus(), "MASTER_PORT"), Texts{"10224"});
  EXPECT_EQ(Values(Native(1, 0), TwoGpus({"MASTER_PORT=29500"}), "MASTER_PORT"), Texts{"29500"}) << "the user's own";
}

TEST(StepPlan, LocalRankIndexesTheTasksOwnGpu) {
  EXPECT_EQ(Values(Native(2, 1), TwoGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"4,5", "5,4"}));
  EXPECT_EQ(Values(Native(2, 1), TwoGpus(), "LOCAL_RANK"), (Texts{"0", "0"}));
  EXPECT_EQ(Values(Native(2, 1), TwoGpus(), "DIVVY_TASK_GPUS"), (Texts{"4", "5"}));
}

TEST(StepPlan, SrunDoesNotSetTorchVariables) {
  StepOptions ask;
  ask.deal.tasks = 2;
  EXPECT_EQ(Values(ask, TwoGpus({"RANK=9"}), "RANK"), (Texts{"9", "9"}));
  EXPECT_EQ(Values(ask, TwoGpus(), "SLURM_PROCID"), (Texts{"0", "1"}));
  EXPECT_EQ(Values(ask, TwoGpus(), "DIVVY_TASK"), (Texts{"0", "1"}));
}

TEST(StepPlan, SrunTasksGetTheirCores) {
  StepOptions ask;
  ask.deal.tasks = 2;
  EXPECT_EQ(Values(ask, TwoGpus(), "SLURM_CPU_BIND"), (Texts{"quiet,none", "quiet,none"}));
  EXPECT_EQ(Values(ask, TwoGpus({"SLURM_CPU_BIND_LIST=0x9"}), "SLURM_CPU_BIND_LIST"), (Texts{"", ""}))
      << "an outer one's";
  ask.commands = {{"true"}};
  ask.deal.cpu_bind = "map_cpu:3,4";
  TaskGround ground;
  ground.cores = {0, 1, 2, 3, 4, 5};
  for (const StepTask& task : MakeTasks(ask, TwoGpus(), {}, ground, {"3", "box", "eva"})) {
    EXPECT_EQ(EnvironmentValue(task.environment, "SLURM_CPU_BIND"), "quiet,mask_cpu:0x8,0x10");
    EXPECT_EQ(EnvironmentValue(task.environment, "SLURM_CPU_BIND_TYPE"), "mask_cpu:");
    EXPECT_EQ(EnvironmentValue(task.environment, "SLURM_CPU_BIND_LIST"), "0x8,0x10");
    EXPECT_EQ(EnvironmentValue(task.environment, "SLURM_MEM_BIND"), "quiet,none") << "nothing binds memory";
  }
}

TEST(StepPlan, ExpandsFileNamePatterns) {
  const StepIdentity identity{"3", "box", "eva"};
  const auto fill = [&](const std::string& pattern) { return FillStepPattern(pattern, TwoGpus(), identity, 5); };
  EXPECT_EQ(fill("%j-%A-%a-%x-%N-%t-%u-%s-%n"), "17-17-4294967294-train-box-5-eva-3-0");
  EXPECT_EQ(fill("%b"), "4") << "the last digit of %a";
  EXPECT_EQ(fill("%3t %J %% %q %"), "005 17.3 % %q %");
}

TEST(StepPlan, TasksThatShareAFileTruncateItOnce) {
  StepOptions ask = Native(2, 0);
  ask.commands = {{"true"}};
  ask.output = "all";
  ask.error = "err-%j";
  const auto tasks = MakeTasks(ask, TwoGpus(), {}, {}, {"0", "box", "eva"});
  EXPECT_EQ(tasks[0].streams[1].kind, StepStream::Kind::kCaller);
  EXPECT_TRUE(tasks[0].streams[2].truncates);
  EXPECT_FALSE(tasks[1].streams[2].truncates);
  EXPECT_EQ(tasks[1].streams[2].path, "err-17");
  EXPECT_EQ(tasks[1].streams[0].kind, StepStream::Kind::kNothing) << "the first task has the input";
}

TEST(StepPlan, ANarrowedVisibleDevicesListDoesNotHideTheJobsGpus) {
  const JobAround around = ReadJobAround({"CUDA_VISIBLE_DEVICES=5", "DIVVY_GPUS=4,5", "DIVVY_JOB_ID=17"});
  ASSERT_EQ(around.gpus.size(), 2u);
  EXPECT_EQ(around.gpus[0].physical, "4");
}

TEST(StepPlan, ANarrowedListInAJobWithItsOwnGpuNumbersKeepsPhysicalIds) {
  const JobAround around =
      ReadJobAround({"CUDA_VISIBLE_DEVICES=1", "DIVVY_CUDA_INDICES=0,1", "DIVVY_GPUS=4,5", "DIVVY_JOB_ID=17"});
  ASSERT_EQ(around.gpus.size(), 2u);
  EXPECT_EQ(around.gpus[0].visible, "0");
  EXPECT_EQ(around.gpus[0].physical, "4");
}

}  // namespace step_plan_test
}  // namespace divvy::cli
