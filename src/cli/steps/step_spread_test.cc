// Which tasks of a step run on which node of the job, and what each task gets in its environment.
#include <algorithm>

#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/steps/step_plan.h"
#include "cli/steps/steps.h"

namespace divvy::cli {
namespace step_spread_test {

using Texts = std::vector<std::string>;

/// alpha with two tasks and GPUs 4 and 5, beta with one task and GPU 0; this is node `own`.
GangFile TwoMachines(std::size_t own) {
  GangFile gang{17, 1, own, {}};
  gang.members.push_back({"alpha.lab", {"10.0.0.1", 4001}, GpuSet::Of({4, 5}), 2});
  gang.members.push_back({"beta.lab", {"10.0.0.2", 4002}, GpuSet::Of({0}), 1});
  return gang;
}

class StepSpread : public testing::Test {
 protected:
  StepCall CallOf(std::size_t own, const std::string& words) const {
    StepCall call;
    call.words = ShellSplit(words).value_or(Texts());
    call.environment = {"DIVVY_JOB_ID=17", "DIVVY_JOB_NAME=train", "SLURM_JOB_ID=17", "MASTER_ADDR=10.0.0.1",
                        "MASTER_PORT=10221"};
    const Texts gpus = own == 0 ? Texts{"CUDA_VISIBLE_DEVICES=4,5", "DIVVY_GPUS=4,5"}
                                : Texts{"CUDA_VISIBLE_DEVICES=0", "DIVVY_GPUS=0"};
    call.environment.insert(call.environment.end(), gpus.begin(), gpus.end());
    call.directory = "/work";
    return call;
  }
  Result<StepPlan> Plan(const GangFile& gang, StepCall call) const {
    const StepIdentity identity{"", "box", "eva", &gang, 0};
    const Texts rest(call.words.begin() + 1, call.words.end());
    if (call.words.front() == "srun") return slurm::PlanSrun(call, rest, machine_, identity);
    if (call.words.front() == "internal-rsh") return PlanRsh(call, rest, machine_, identity);
    return PlanRun(call, rest, machine_, identity);
  }
  /// Plans a step that is called on node `own`.
  Result<StepPlan> PlanOn(std::size_t own, const std::string& words) {
    gang_ = TwoMachines(own);
    return Plan(gang_, CallOf(own, words));
  }
  /// Plans the part on node `own` of a step that is called on the other node.
  Result<StepPlan> PartOn(std::size_t own, const std::string& words) {
    other_ = TwoMachines(1 - own);
    const auto called = Plan(other_, CallOf(1 - own, words));
    if (!called) return called.error();
    if (!called->spread) return Internal("it has no part there");
    gang_ = TwoMachines(own);
    StepCall call = CallOf(own, words);
    call.part = StepPart{3, called->spread->layout};
    return Plan(gang_, std::move(call));
  }
  static Texts Values(const Result<StepPlan>& plan, const std::string& name) {
    if (!plan) return {plan.error().message};
    std::vector<std::size_t> gpus;
    for (std::size_t gpu = 0; gpu < plan->need.gpus.value_or(2); ++gpu) gpus.push_back(gpu);
    const auto tasks = plan->make(3, gpus);
    Texts values;
    for (const StepTask& task : tasks->tasks) values.push_back(EnvironmentValue(task.environment, name));
    return values;
  }
  static std::string Layout(const Result<StepPlan>& plan) {
    if (!plan) return plan.error().message;
    return plan->spread ? plan->spread->layout : "here";
  }

  std::vector<std::vector<int>> machine_;
  GangFile gang_;
  GangFile other_;
};

TEST_F(StepSpread, EachNodeGetsItsRanksAndNodeVariables) {
  const std::string words = "run --tasks 3 true";
  EXPECT_EQ(Values(PlanOn(0, words), "RANK"), (Texts{"0", "1"}));
  EXPECT_EQ(Values(PartOn(1, words), "RANK"), (Texts{"2"}));
  EXPECT_EQ(Values(PartOn(1, words), "WORLD_SIZE"), (Texts{"3"}));
  EXPECT_EQ(Values(PartOn(1, words), "LOCAL_RANK"), (Texts{"0"}));
  EXPECT_EQ(Values(PartOn(1, words), "LOCAL_WORLD_SIZE"), (Texts{"1"}));
  EXPECT_EQ(Values(PartOn(1, words), "NODE_RANK"), (Texts{"1"}));
  EXPECT_EQ(Values(PartOn(1, words), "NNODES"), (Texts{"2"}));
  EXPECT_EQ(Values(PartOn(1, words), "CUDA_VISIBLE_DEVICES"), (Texts{"0"}));
  EXPECT_EQ(PlanOn(0, words)->host, "alpha.lab");
}

TEST_F(StepSpread, MasterAddressIsTheNodeOfRankZero) {
  EXPECT_EQ(Values(PlanOn(0, "run --tasks 3 true"), "MASTER_ADDR"), (Texts{"10.0.0.1", "10.0.0.1"}));
  EXPECT_EQ(Values(PlanOn(0, "run --tasks 3 true"), "MASTER_PORT"), (Texts{"10224", "10224"})) << "each step its own";
  EXPECT_EQ(Values(PartOn(1, "srun -n1 -w beta true"), "MASTER_ADDR"), (Texts{"10.0.0.2"}));
}

TEST_F(StepSpread, SlurmVariablesAreThoseOfTheStep) {
  const std::string words = "srun -n3 true";
  EXPECT_EQ(Values(PartOn(1, words), "SLURM_PROCID"), (Texts{"2"}));
  EXPECT_EQ(Values(PartOn(1, words), "SLURM_LOCALID"), (Texts{"0"}));
  EXPECT_EQ(Values(PartOn(1, words), "SLURM_NODEID"), (Texts{"1"}));
  EXPECT_EQ(Values(PartOn(1, words), "SLURM_STEP_NODELIST"), (Texts{"alpha,beta"}));
  EXPECT_EQ(Values(PartOn(1, words), "SLURM_STEP_TASKS_PER_NODE"), (Texts{"2,1"}));
  EXPECT_EQ(Values(PartOn(1, words), "SLURM_NNODES"), (Texts{"2"}));
  EXPECT_EQ(Values(PartOn(1, words), "SLURM_GTIDS"), (Texts{"2"}));
}

TEST_F(StepSpread, NodesCanBeExcluded) {
  EXPECT_EQ(Layout(PlanOn(0, "srun -N1 -n1 -x alpha true")), "block 1:1");
  EXPECT_EQ(Layout(PlanOn(0, "srun -N1 -n1 -r 1 true")), "block 1:1");
  EXPECT_EQ(Layout(PlanOn(0, "srun -N1 -n1 -x beta,gamma true")), "here");
  EXPECT_EQ(
      Layout(PlanOn(0, "srun -N2 -x beta true")),
      "srun: error: Unable to create step for job 17: it asks for 2 nodes, the job has 2, of which it excludes 1");
}

TEST_F(StepSpread, TheStepListGetsNameNodesAndGpus) {
  const auto all = PlanOn(0, "srun -J phase-1 -n3 true");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->step_name, "phase-1");
  EXPECT_EQ(all->machines, (std::vector<StepMachine>{{0, 2, {}}, {1, 1, {}}}));
  EXPECT_EQ(all->gpus_of({0, 1}), "4,5");
  EXPECT_EQ(all->gpus_of({1}), "5");
  const auto one = PlanOn(0, "run --name phase-2 --nodelist beta true");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->step_name, "phase-2");
  EXPECT_EQ(one->machines, (std::vector<StepMachine>{{1, 1, {}}}));
  EXPECT_EQ(PartOn(1, "srun -n3 true")->gpus_of({0}), "0");
  EXPECT_EQ(PlanOn(0, "srun -n3 true")->step_name, "") << "its program's";
}

TEST_F(StepSpread, TasksRunOnTheChosenNodes) {
  EXPECT_EQ(Layout(PlanOn(0, "run true")), "here");
  EXPECT_EQ(Layout(PlanOn(1, "run true")), "here");
  EXPECT_EQ(Layout(PlanOn(1, "srun -n1 true")), "block 0:1") << "Slurm's first machine, wherever it is called";
  EXPECT_EQ(Layout(PlanOn(0, "srun true")), "block 0:2,1:1") << "all that the job has";
  EXPECT_EQ(Layout(PlanOn(0, "srun -N2 --ntasks-per-node=2 true")), "block 0:2,1:2");
  EXPECT_EQ(Layout(PlanOn(0, "srun -n2 -N2 true")), "block 0:1,1:1");
  EXPECT_EQ(Layout(PlanOn(0, "srun -n3 -m cyclic true")), "cyclic 0:2,1:1");
  EXPECT_EQ(Layout(PlanOn(0, "srun -n1 -w beta true")), "block 1:1");
  EXPECT_EQ(Layout(PlanOn(0, "srun -w gamma true")),
            "srun: error: Unable to create step for job 17: 'gamma' is not one of the job's nodes: alpha, "
            "beta");
  EXPECT_EQ(Layout(PlanOn(0, "srun -N3 true")),
            "srun: error: Unable to create step for job 17: it asks for 3 nodes, the job has 2");
}

TEST_F(StepSpread, EachNodeHasItsPartOfTheGpus) {
  const auto need = [](const Result<StepPlan>& plan) {
    return plan && plan->need.gpus ? static_cast<int>(*plan->need.gpus) : -1;
  };
  EXPECT_EQ(need(PlanOn(0, "srun -n3 --gpus-per-task=1 true")), 2);
  EXPECT_EQ(need(PartOn(1, "srun -n3 --gpus-per-task=1 true")), 1);
  EXPECT_EQ(need(PartOn(1, "srun -n3 --gpus=3 true")), 1);
  EXPECT_EQ(need(PlanOn(0, "srun -n3 --gpus=3 true")), 2);
  EXPECT_EQ(need(PartOn(1, "srun -n3 --gres=gpu:1 true")), 1);
  EXPECT_EQ(need(PlanOn(0, "srun -n3 true")), -1) << "it shares";
  EXPECT_TRUE(PlanOn(0, "srun -n3 --gpus=3 true")->spread->reserves);
  EXPECT_FALSE(PlanOn(0, "srun -n3 true")->spread->reserves);
}

TEST_F(StepSpread, OutputGoesToTheCallerOrToFilesOnItsNode) {
  const auto stream = [](const Result<StepPlan>& plan, std::size_t target) {
    return plan->make(3, {})->tasks.front().streams[target];
  };
  EXPECT_EQ(stream(PartOn(1, "srun -n3 true"), 1).kind, StepStream::Kind::kLabelled);
  EXPECT_EQ(stream(PlanOn(0, "srun -n3 true"), 1).kind, StepStream::Kind::kCaller);
  EXPECT_EQ(stream(PartOn(1, "srun -n3 -o out-%t true"), 1).path, "out-2");
  EXPECT_EQ(stream(PartOn(1, "srun -n3 -o out-%n true"), 1).path, "out-1");
  EXPECT_EQ(stream(PartOn(1, "srun -n3 -o out true"), 1).kind, StepStream::Kind::kLabelled);
  const auto shared = PlanOn(0, "srun -n3 -o out-%j true");
  EXPECT_EQ(shared->spread->files[0].path, "out-17");
  EXPECT_TRUE(shared->spread->files[0].truncates);
  EXPECT_FALSE(stream(shared, 1).truncates) << "it has been emptied already";
  EXPECT_EQ(PlanOn(0, "srun -n1 -w beta cat")->spread->input_rank, 0u);
  EXPECT_EQ(PlanOn(0, "srun -n3 cat")->spread->input_rank, std::nullopt) << "it runs here";
}

TEST_F(StepSpread, ARemoteShellRunsACommandWithoutARank) {
  const auto plan = PlanOn(0, "internal-rsh -x beta orted --hnp \"a;b\"");
  EXPECT_EQ(Layout(plan), "block 1:1");
  const auto part = PartOn(1, "internal-rsh beta orted --x '\"1\"'");
  ASSERT_TRUE(part) << part.error().message;
  const auto tasks = part->make(3, {});
  EXPECT_EQ(tasks->tasks.front().command, (Texts{"/bin/sh", "-c", "orted --x \"1\""}));
  EXPECT_EQ(Values(part, "RANK"), (Texts{""}));
  EXPECT_FALSE(PlanOn(0, "internal-rsh gamma true"));
}

TEST_F(StepSpread, VariablesOfTheCallersNodeAreNotCopied) {
  StepCall call;
  call.environment = {"A=1",
                      "CUDA_VISIBLE_DEVICES=0",
                      "DIVVY_GPUS=0",
                      "DIVVY_STEPS=/run/a/17",
                      "DIVVY_NODES=a,b",
                      "AGENT=/run/a/17.rsh",
                      "HOSTNAME=a",
                      "OTHER=/run/a/170"};
  MoveToMachine(call, {"DIVVY_STEPS=/var/b/17", "DIVVY_GPUS=5", "CUDA_VISIBLE_DEVICES=5", "A=2"});
  std::ranges::sort(call.environment);
  EXPECT_EQ(call.environment, (Texts{"A=1", "AGENT=/var/b/17.rsh", "CUDA_VISIBLE_DEVICES=5", "DIVVY_GPUS=5",
                                     "DIVVY_NODES=a,b", "DIVVY_STEPS=/var/b/17", "OTHER=/run/a/170"}));
}

}  // namespace step_spread_test
}  // namespace divvy::cli
