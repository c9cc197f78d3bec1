// Steps with real processes, and the plan that makes them.
#include "cli/shims/slurm_steps.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "cli/shims/slurm_step_lock.h"
#include "cli/shims/slurm_step_plan.h"
#include "cli/shims/slurm_submit.h"
#include "dialect/slurm.h"

namespace divvy::cli::slurm {
namespace {

std::string Slurp(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Steps : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "divvy-steps-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  StepPlan Plan(int tasks, const std::string& script) {
    StepPlan plan;
    plan.job = "17";
    plan.step = "0";
    plan.hostname = "box";
    plan.is_quiet = true;
    plan.directory = folder_;
    for (int rank = 0; rank < tasks; ++rank) {
      plan.tasks.push_back({{"/bin/sh", "-c", script}, {"PATH=/usr/bin:/bin", "SLURM_PROCID=" + std::to_string(rank)}});
    }
    return plan;
  }

  std::filesystem::path folder_;
};

TEST_F(Steps, ExitCodeIsTheHighest) {
  EXPECT_EQ(RunSteps(Plan(3, "exit $SLURM_PROCID")), 2);
  EXPECT_EQ(RunSteps(Plan(1, "kill -9 $$")), 137);
  EXPECT_EQ(RunSteps(Plan(2, "true")), 0);
}

TEST_F(Steps, AnUnknownCommandIsToldByItsCode) {
  StepPlan plan = Plan(1, "");
  plan.tasks[0].command = {"no-such-command-here"};
  EXPECT_EQ(RunSteps(plan), 127);
}

TEST_F(Steps, EachTaskWritesItsOwnFile) {
  StepPlan plan = Plan(2, "echo rank $SLURM_PROCID; echo oops >&2");
  plan.output = "out-%J-%2t.txt";
  EXPECT_EQ(RunSteps(plan), 0);
  EXPECT_EQ(Slurp(folder_ / "out-17.0-00.txt"), "rank 0\noops\n");
  EXPECT_EQ(Slurp(folder_ / "out-17.0-01.txt"), "rank 1\noops\n");
}

TEST_F(Steps, OneFileForAllIsEmptiedOnceAndLosesNothing) {
  std::ofstream(folder_ / "all.txt") << "old\n";
  StepPlan plan = Plan(4, "echo line");
  plan.output = "all.txt";
  EXPECT_EQ(RunSteps(plan), 0);
  EXPECT_EQ(Slurp(folder_ / "all.txt"), "line\nline\nline\nline\n");
  plan.appends = true;
  EXPECT_EQ(RunSteps(plan), 0);
  EXPECT_EQ(Slurp(folder_ / "all.txt").size(), 40u);
}

TEST_F(Steps, LabelsKeepLinesWhole) {
  StepPlan plan = Plan(2, "printf 'a\\nb'");
  plan.has_labels = true;
  testing::internal::CaptureStdout();
  EXPECT_EQ(RunSteps(plan), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  std::vector<std::string> lines;
  for (const std::string_view line : Split(text, '\n')) lines.emplace_back(line);
  std::ranges::sort(lines);
  EXPECT_EQ(lines, (std::vector<std::string>{"", "0: a", "0: b", "1: a", "1: b"}));
}

TEST_F(Steps, ABadExitEndsTheOthersWhenAsked) {
  StepPlan plan = Plan(3, "test $SLURM_PROCID = 1 && exit 7; exec sleep 60");
  plan.kills_on_bad_exit = true;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(RunSteps(plan), 143) << "as in Slurm, the tasks that were ended count";
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
}

TEST_F(Steps, ASignalFromInsideTheJobReachesTheTasks) {
  // The task tells its parent, which is this program as srun; the trap shows that the signal came back.
  StepPlan plan = Plan(1, "trap 'exit 9' USR1; kill -USR1 $PPID; while :; do sleep 0.01; done");
  EXPECT_EQ(RunSteps(plan), 9);
}

JobAround FourGpus(std::vector<std::string> more = {}) {
  std::vector<std::string> environment = {"CUDA_VISIBLE_DEVICES=0,1,2,3", "SLURM_JOB_GPUS=4,5,6,7", "SLURM_JOB_ID=17",
                                          "DIVVY_JOB_ID=17"};
  environment.insert(environment.end(), more.begin(), more.end());
  return ReadJobAround(environment);
}

StepAsk Ask(const std::string& words, const JobAround& around) {
  JobSpec spec;
  const dialect::Surroundings nowhere;
  const auto split = ShellSplit(words).value_or(std::vector<std::string>());
  EXPECT_TRUE(dialect::ParseOptions(dialect::SbatchOptions(spec, nowhere), split));
  const auto ask = ReadStepAsk(spec, around);
  EXPECT_TRUE(ask) << (ask ? "" : ask.error().message);
  return ask ? *ask : StepAsk();
}

std::vector<std::string> Seen(const std::string& words, const JobAround& around, const std::string& name) {
  std::vector<std::string> values;
  for (const StepTask& task : MakeTasks(Ask(words, around), around, around.gpus, {"3", "box"}, {"true"})) {
    values.push_back(EnvironmentValue(task.environment, name));
  }
  return values;
}

using Texts = std::vector<std::string>;

TEST(StepPlan, WithoutAskingEveryTaskSeesAllGpusInTheSameOrder) {
  EXPECT_EQ(Seen("-n2", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"0,1,2,3", "0,1,2,3"}));
  EXPECT_EQ(Seen("-n2", FourGpus(), "SLURM_STEP_GPUS"), (Texts{"4,5,6,7", "4,5,6,7"}));
}

TEST(StepPlan, WithGpusPerTaskEachFindsItsOwnFirstAndTheOthersBehind) {
  EXPECT_EQ(Seen("-n4 --gpus-per-task=1", FourGpus(), "CUDA_VISIBLE_DEVICES"),
            (Texts{"0,1,2,3", "1,0,2,3", "2,0,1,3", "3,0,1,2"}));
  EXPECT_EQ(Seen("-n4 --gpus-per-task=1", FourGpus(), "SLURM_STEP_GPUS"), (Texts{"4", "5", "6", "7"}));
  EXPECT_EQ(Seen("-n2 --gpus-per-task=2", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"0,1,2,3", "2,3,0,1"}));
  EXPECT_EQ(Seen("", FourGpus({"SLURM_NTASKS=2", "SLURM_GPUS_PER_TASK=2"}), "CUDA_VISIBLE_DEVICES"),
            (Texts{"0,1,2,3", "2,3,0,1"}));
}

TEST(StepPlan, BindingHidesTheOthers) {
  EXPECT_EQ(Seen("-n2 --gpu-bind=single:1", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"0", "1"}));
  EXPECT_EQ(Seen("-n2 --gpu-bind=map_gpu:3,2", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"3", "2"}));
  EXPECT_EQ(Seen("-n2 --gpu-bind=mask_gpu:3,c", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"0,1", "2,3"}));
  EXPECT_EQ(Seen("-n2 --tres-bind=gres/gpu:per_task:2 --gpus-per-task=2", FourGpus(), "CUDA_VISIBLE_DEVICES"),
            (Texts{"0,1", "2,3"}));
  EXPECT_EQ(Seen("-n2 --gpu-bind=none --gpus-per-task=2", FourGpus(), "CUDA_VISIBLE_DEVICES"),
            (Texts{"0,1,2,3", "0,1,2,3"}));
}

TEST(StepPlan, RanksAndCountsAreTold) {
  const JobAround around = FourGpus({"SLURM_NTASKS=8", "KEPT=1"});
  EXPECT_EQ(Seen("-n3", around, "SLURM_PROCID"), (Texts{"0", "1", "2"}));
  EXPECT_EQ(Seen("-n3", around, "SLURM_LOCALID"), (Texts{"0", "1", "2"}));
  EXPECT_EQ(Seen("-n3", around, "SLURM_NTASKS"), (Texts{"3", "3", "3"}));
  EXPECT_EQ(Seen("-n1", around, "SLURM_STEP_ID"), (Texts{"3"}));
  EXPECT_EQ(Seen("-n1", around, "KEPT"), (Texts{"1"}));
  EXPECT_EQ(Seen("-n1 --export=NONE", around, "KEPT"), (Texts{""}));
  EXPECT_EQ(Seen("", around, "SLURM_PROCID").size(), 8u) << "what the job was submitted with is the default";
  EXPECT_EQ(Seen("-N1 --ntasks-per-node=2", around, "SLURM_PROCID").size(), 2u);
}

TEST(StepPlan, MoreGpusThanTheJobHasAreRefused) {
  JobSpec spec;
  const dialect::Surroundings nowhere;
  const std::vector<std::string> words = {"--gpus=5"};
  ASSERT_TRUE(dialect::ParseOptions(dialect::SbatchOptions(spec, nowhere), words));
  const auto ask = ReadStepAsk(spec, FourGpus());
  ASSERT_FALSE(ask);
  EXPECT_EQ(ask.error().message, "Unable to create step for job 17: it asks for 5 GPUs, the job has 4");
}

TEST(StepPlan, InsideAJobMeansInsideOurs) {
  EXPECT_TRUE(IsInsideJob({"DIVVY_JOB_ID=3"}));
  EXPECT_TRUE(IsInsideJob({"SLURM_JOB_ID=3", "SLURM_CLUSTER_NAME=divvy"}));
  EXPECT_FALSE(IsInsideJob({"SLURM_JOB_ID=3", "SLURM_CLUSTER_NAME=big"}));
  EXPECT_FALSE(IsInsideJob({}));
}

TEST(StepPlan, MultiProgGivesEachRankItsLine) {
  const auto commands = ReadMultiProg("# servers\n0 ./master\n1-2 ./worker %t %o\n* ./rest 'a b'\n", 4);
  ASSERT_TRUE(commands) << commands.error().message;
  EXPECT_EQ((*commands)[0], (Texts{"./master"}));
  EXPECT_EQ((*commands)[2], (Texts{"./worker", "2", "1"}));
  EXPECT_EQ((*commands)[3], (Texts{"./rest", "a b"}));
  EXPECT_FALSE(ReadMultiProg("0 ./a\n", 2));
  EXPECT_FALSE(ReadMultiProg("0\n", 1));
  EXPECT_FALSE(ReadMultiProg("x ./a\n", 1));
}

TEST_F(Steps, TwoOfThemNeverHaveOneGpu) {
  ::setenv("TMPDIR", folder_.c_str(), 1);  // The lock files belong to this test alone.
  const std::string job = "test-" + std::to_string(::getpid());
  auto first = StepLock::Open(job);
  auto second = StepLock::Open(job);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->NextStep(), 0);
  EXPECT_EQ(second->NextStep(), 1);
  EXPECT_EQ(first->TakeGpus(2, 4), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(second->TakeGpus(2, 4), (std::vector<std::size_t>{2, 3}));
  auto third = StepLock::Open(job);
  ASSERT_TRUE(third);
  EXPECT_TRUE(third->TakeGpus(1, 4).empty());
  { const StepLock gone = std::move(*first); }
  EXPECT_TRUE(third->TakeGpus(3, 4).empty()) << "all of them or none";
  EXPECT_EQ(third->TakeGpus(2, 4), (std::vector<std::size_t>{0, 1}));
  ::unsetenv("TMPDIR");
}

dialect::Surroundings Around() {
  dialect::Surroundings around;
  around.directory = "/w";
  around.hostname = "box";
  around.environment = {"SBATCH_PARTITION=gpu"};
  around.read_file = [](const std::string& path) -> Result<std::string> {
    if (path == "t.sh") return std::string("#!/bin/sh\n#SBATCH --gres=gpu:2 -t 10\n./x\n");
    if (path == "plain.sh") return std::string("echo hi\n");
    return NotFound(path);
  };
  return around;
}

Result<BatchRequest> Batch(const std::vector<std::string>& words) {
  return ReadBatchRequest(words, Around(), [] { return Result<std::string>("#!/bin/sh\n#SBATCH -n 3\n"); });
}

TEST(Sbatch, ReadsLinesThenEnvironmentThenWords) {
  const auto request = Batch({"--time=20", "--parsable", "t.sh", "--time=99", "x"});
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->spec.request.gpus, 2);
  EXPECT_EQ(request->spec.time_limit, std::chrono::minutes(20));
  EXPECT_EQ(request->spec.pool, "gpu");
  EXPECT_EQ(request->spec.name, "t.sh");
  EXPECT_EQ(request->spec.arguments, (Texts{"--time=99", "x"}));
  EXPECT_TRUE(request->is_parsable);
  EXPECT_EQ(request->spec.directory, "/w");
  EXPECT_EQ(request->spec.labels.count("slurm.client.parsable"), 0u);
}

TEST(Sbatch, WrapsCommandsAndReadsStdin) {
  const auto wrapped = Batch({"--wrap", "echo hi", "-W"});
  ASSERT_TRUE(wrapped);
  EXPECT_EQ(wrapped->spec.name, "wrap");
  EXPECT_TRUE(wrapped->spec.script.ends_with("\necho hi\n"));
  EXPECT_TRUE(wrapped->waits);
  const auto piped = Batch({});
  ASSERT_TRUE(piped);
  EXPECT_EQ(piped->spec.request.tasks, 3);
  EXPECT_EQ(piped->spec.name, "sbatch");
}

TEST(Sbatch, RefusesWhatSbatchRefuses) {
  EXPECT_EQ(Batch({"none.sh"}).error().message, "Unable to open file none.sh");
  EXPECT_TRUE(Batch({"plain.sh"}).error().message.starts_with("This does not look like a batch script."));
  EXPECT_EQ(Batch({"--wrap=x", "t.sh"}).error().message, "Script arguments not permitted with --wrap option");
}

}  // namespace
}  // namespace divvy::cli::slurm
