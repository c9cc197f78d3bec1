// Steps of a heterogeneous job: which tasks run where, with which GPUs and which ranks.
#include <array>
#include <utility>

#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/steps/step_plan.h"
#include "cli/steps/steps.h"

namespace divvy::cli {
namespace step_components_test {

using Texts = std::vector<std::string>;

/// alpha: component 0 with GPUs 4 and 5 and two tasks, component 1 with GPU 6 and one; beta: component 1 with GPU 0 and
/// one task, component 2 with three and no GPU.
GangFile Two(std::size_t own) {
  GangFile gang{17, 1, own, {}};
  gang.members.push_back(
      {"alpha", {"10.0.0.1", 4001}, GpuSet::Of({4, 5, 6}), 3, {{0, GpuSet::Of({4, 5}), 2}, {1, GpuSet::Of({6}), 1}}});
  gang.members.push_back({"beta", {"10.0.0.2", 4002}, GpuSet::Of({0}), 4, {{1, GpuSet::Of({0}), 1}, {2, GpuSet(), 3}}});
  return gang;
}

class StepComponents : public testing::Test {
 protected:
  static StepCall CallOf(std::size_t own, const std::string& words) {
    StepCall call;
    call.words = ShellSplit(words).value_or(Texts());
    call.environment = {"DIVVY_JOB_ID=17",
                        "SLURM_JOB_ID=17",
                        "SLURM_HET_SIZE=3",
                        "SLURM_NTASKS=2",
                        "SLURM_NTASKS_HET_GROUP_0=2",
                        "SLURM_NNODES=1",
                        "SLURM_NNODES_HET_GROUP_0=1",
                        "SLURM_NNODES_HET_GROUP_1=2",
                        "SLURM_NNODES_HET_GROUP_2=1",
                        "SLURM_CPUS_PER_TASK_HET_GROUP_2=2"};
    const Texts gpus = own == 0 ? Texts{"CUDA_VISIBLE_DEVICES=4,5,6", "DIVVY_GPUS=4,5,6"}
                                : Texts{"CUDA_VISIBLE_DEVICES=0", "DIVVY_GPUS=0"};
    call.environment.insert(call.environment.end(), gpus.begin(), gpus.end());
    call.directory = "/work";
    return call;
  }
  Result<StepPlan> Plan(std::size_t own, StepCall call) {
    gangs_[own] = Two(own);
    const StepIdentity identity{"", "box", "eva", &gangs_[own], 0};
    const Texts rest(call.words.begin() + 1, call.words.end());
    if (call.words.front() == "srun") return slurm::PlanSrun(call, rest, machine_, identity);
    return PlanRun(call, rest, machine_, identity);
  }
  /// Plans a step that is called on the node alpha.
  Result<StepPlan> Called(const std::string& words) { return Plan(0, CallOf(0, words)); }
  /// Plans the part of the step that the node beta runs.
  Result<StepPlan> OnBeta(const std::string& words) {
    const auto called = Called(words);
    if (!called) return called.error();
    if (!called->spread) return Internal("it has no part there");
    StepCall call = CallOf(1, words);
    call.part = StepPart{3, called->spread->layout};
    return Plan(1, std::move(call));
  }
  /// "RANK GPUS COMMAND" of each task; all GPUs here are granted.
  static Texts Tasks(const Result<StepPlan>& plan) {
    if (!plan) return {plan.error().message};
    const auto tasks = plan->make(3, {0, 1, 2});
    Texts lines;
    for (std::size_t i = 0; i < tasks->tasks.size(); ++i) {
      const StepTask& task = tasks->tasks[i];
      const auto value = [&](std::string_view name) { return EnvironmentValue(task.environment, name); };
      const std::string rank = value("SLURM_PROCID").empty() ? value("RANK") : value("SLURM_PROCID");
      EXPECT_EQ(rank, std::to_string(tasks->ranks[i]));
      lines.push_back(rank + " " + value("CUDA_VISIBLE_DEVICES") + " " + Join(task.command, " "));
    }
    return lines;
  }
  static std::string Layout(const Result<StepPlan>& plan) {
    if (!plan) return plan.error().message;
    return plan->spread ? plan->spread->layout : "here";
  }

  std::vector<std::vector<int>> machine_;
  std::array<GangFile, 2> gangs_;
};

TEST_F(StepComponents, TheFirstComponentIsTheDefault) {
  EXPECT_EQ(Layout(Called("srun x")), "here");
  EXPECT_EQ(Tasks(Called("srun x")), (Texts{"0 4,5 x", "1 4,5 x"}));
}

TEST_F(StepComponents, AComponentIsChosenByHetGroup) {
  EXPECT_EQ(Layout(Called("srun --het-group=1 x")), "parts 0:1:0,1:1:0");
  EXPECT_EQ(Tasks(Called("srun --het-group=1 x")), Texts{"0 6 x"});
  EXPECT_EQ(Tasks(OnBeta("srun --het-group=1 x")), Texts{"1 0 x"});
  EXPECT_EQ(Layout(Called("srun --het-group=2 x")), "parts 1:3:0");
  EXPECT_TRUE(Tasks(Called("srun --het-group=2 x")).empty());
  EXPECT_EQ(Tasks(OnBeta("srun --het-group=2 x")), (Texts{"0  x", "1  x", "2  x"})) << "it has no GPU";
}

TEST_F(StepComponents, RanksFollowTheOrderOfTheComponents) {
  const std::string words = "srun --het-group=0-2 x";
  EXPECT_EQ(Layout(Called(words)), "parts 0:2:0,0:1:1,1:1:1,1:3:2");
  EXPECT_EQ(Tasks(Called(words)), (Texts{"0 4,5 x", "1 4,5 x", "2 6 x"}));
  EXPECT_EQ(Tasks(OnBeta(words)), (Texts{"3 0 x", "4  x", "5  x", "6  x"}));
  const auto tasks = Called(words)->make(3, {0, 1, 2});
  EXPECT_EQ(EnvironmentValue(tasks->tasks[2].environment, "SLURM_NTASKS"), "7") << "one world";
  EXPECT_EQ(EnvironmentValue(tasks->tasks[2].environment, "SLURM_LOCALID"), "2");
  EXPECT_EQ(EnvironmentValue(tasks->tasks[2].environment, "DIVVY_COMPONENT"), "1");
  EXPECT_EQ(EnvironmentValue(tasks->tasks[2].environment, "SLURM_TASKS_PER_NODE"), "3,4");
  EXPECT_EQ(EnvironmentValue(tasks->tasks[2].environment, "SLURM_STEP_NODELIST"), "alpha,beta");
}

TEST_F(StepComponents, EachCommandRunsInItsOwnComponent) {
  const std::string words = "srun -n1 a 1 : b 2 : -n2 c";
  EXPECT_EQ(Layout(Called(words)), "parts 0:1:0,0:1:1,1:1:1,1:2:2");
  EXPECT_EQ(Tasks(Called(words)), (Texts{"0 4,5 a 1", "1 6 b 2"}));
  EXPECT_EQ(Tasks(OnBeta(words)), (Texts{"2 0 b 2", "3  c", "4  c"}));
  EXPECT_EQ(Layout(Called("srun --het-group=2 a : --het-group=0 b")), "parts 1:3:0,0:2:1");
}

TEST_F(StepComponents, GpusPerTaskComeFromTheTasksComponent) {
  const auto plan = Called("srun --gpus-per-task=1 a : -n2 --gpus-per-task=1 b");
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->need.from.size(), 2U);
  EXPECT_EQ(plan->need.from[0].gpus, 2U);
  EXPECT_EQ(plan->need.from[0].of, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(plan->need.from[1].gpus, 1U);
  EXPECT_EQ(plan->need.from[1].of, std::vector<std::size_t>{2});
  EXPECT_TRUE(plan->spread->reserves);
  EXPECT_EQ(Tasks(plan), (Texts{"0 4,5 a", "1 5,4 a", "2 6 b"}));
}

TEST_F(StepComponents, InvalidComponentsAreRefusedWithAReason) {
  EXPECT_NE(Layout(Called("srun --het-group=3 x")).find("no component 3; it has 0 to 2"), std::string::npos);
  EXPECT_NE(Layout(Called("srun --het-group=1,x x")).find("not a list of components"), std::string::npos);
  EXPECT_NE(Layout(Called("srun --het-group=0 a : --het-group=0 b")).find("for component 0"), std::string::npos);
  EXPECT_NE(Layout(Called("srun a :")).find("No command given"), std::string::npos);
  EXPECT_NE(Layout(Called("srun --het-group=0 -w beta x")).find("not one of the nodes of component 0"),
            std::string::npos);
  // A message as from a node with another version of divvy, or from an attacker.
  StepCall call = CallOf(1, "srun x");
  call.part = StepPart{3, "parts 0:1:0,1:1:7"};
  EXPECT_NE(Layout(Plan(1, std::move(call))).find("disagree about"), std::string::npos);
}

TEST_F(StepComponents, DivvyRunChoosesComponentsToo) {
  EXPECT_EQ(Tasks(Called("run x")), Texts{"0 4,5,6 x"}) << "one task, where it was called";
  EXPECT_EQ(Layout(Called("run --components=1 x")), "parts 0:1:0,1:1:0");
  EXPECT_EQ(Layout(Called("run --components=all x")), "parts 0:2:0,0:1:1,1:1:1,1:3:2");
  const auto plan = Called("run --components=all --gpus-per-task=1 : : -- x");
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->need.from.size(), 1U);
  EXPECT_EQ(plan->need.from[0].gpus, 2U);
  EXPECT_NE(
      Layout(Called("run --components=all --gpus-per-task=1 : -- x")).find("2 components, but the step runs in 3"),
      std::string::npos);
}

TEST_F(StepComponents, OptionsThatDoNotApplyToALaterComponentAreRefused) {
  for (const std::string options :
       {"--tasks=2", "--tasks=1", "--gpus=1", "--cpus=2", "--nodes=2", "--output=f", "--no-kill"}) {
    EXPECT_NE(Layout(Called("run --components=0,1 : " + options + " -- x")).find("after ':' number 1, only"),
              std::string::npos)
        << options;
  }
  EXPECT_NE(Layout(Called("run --components=all : : --tasks=2 -- x")).find("number 2, only"), std::string::npos);
  EXPECT_EQ(Layout(Called("run --components=0,1 : --gpu-bind=none --cpu-bind=none -- x")), "parts 0:2:0,0:1:1,1:1:1");
}

/// The same command line in a job with one component on one node.
Result<StepPlan> InAnother(const std::string& words) {
  StepCall call;
  call.words = ShellSplit(words).value_or(Texts());
  call.environment = {"DIVVY_JOB_ID=18", "SLURM_JOB_ID=18", "CUDA_VISIBLE_DEVICES=0", "DIVVY_GPUS=0"};
  call.directory = "/work";
  const StepIdentity identity{"", "box", "eva"};
  const Texts rest(call.words.begin() + 1, call.words.end());
  return call.words.front() == "srun" ? slurm::PlanSrun(call, rest, {}, identity) : PlanRun(call, rest, {}, identity);
}

TEST(StepOfOneComponent, RefusesOptionsForSeveralComponents) {
  const auto error = [](const std::string& words) {
    const auto plan = InAnother(words);
    return plan ? "" : plan.error().message;
  };
  EXPECT_NE(error("run --tasks 2 : --gpu-bind none -- x").find("job 18 has only one component"), std::string::npos);
  EXPECT_NE(
      error("run --components 1 -- x").find("--components 1: the job has no component 1; it has only component 0"),
      std::string::npos);
  EXPECT_EQ(error("run --components 0 -- x"), "");
  EXPECT_EQ(error("run --components all -- x"), "");
  EXPECT_NE(error("srun --het-group=1 x").find("--het-group=1: the job has no component 1"), std::string::npos);
  EXPECT_NE(error("srun ./a : ./b").find("job 18 has only one component"), std::string::npos);
  EXPECT_EQ(error("srun --het-group=0 x"), "");
  EXPECT_EQ(error("srun sh -c :"), "") << "a command, and nothing behind it";
  EXPECT_EQ(error("srun echo ' : '"), "");
}

}  // namespace step_components_test
}  // namespace divvy::cli
