// The plan of a step, and how sbatch parses its words.
#include "cli/shims/slurm/slurm_step_plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "cli/shims/slurm/slurm_submit.h"
#include "cli/steps/steps.h"
#include "dialect/slurm/slurm.h"

namespace divvy::cli::slurm {
namespace slurm_steps_test {

JobAround FourGpus(std::vector<std::string> more = {}) {
  std::vector<std::string> environment = {"CUDA_VISIBLE_DEVICES=0,1,2,3", "SLURM_JOB_GPUS=4,5,6,7", "SLURM_JOB_ID=17",
                                          "DIVVY_JOB_ID=17"};
  environment.insert(environment.end(), more.begin(), more.end());
  return ReadJobAround(environment);
}

StepOptions Ask(const std::string& words, const JobAround& around) {
  JobSpec spec;
  const dialect::ParseContext nowhere;
  const auto split = ShellSplit(words).value_or(std::vector<std::string>());
  EXPECT_TRUE(dialect::ParseOptions(dialect::SbatchOptions(spec, nowhere), split));
  const auto ask = ReadStepOptions(spec, around);
  EXPECT_TRUE(ask) << (ask ? "" : ask.error().message);
  return ask ? *ask : StepOptions();
}

std::vector<std::string> Seen(const std::string& words, const JobAround& around, const std::string& name) {
  std::vector<std::string> values;
  StepOptions ask = Ask(words, around);
  ask.commands = {{"true"}};
  TaskGround ground;
  ground.gpu_numa_nodes.resize(around.gpus.size(), -1);
  for (const StepTask& task : MakeTasks(ask, around, around.gpus, ground, {"3", "box", "eva"})) {
    values.push_back(EnvironmentValue(task.environment, name));
  }
  return values;
}

using Texts = std::vector<std::string>;

TEST(StepPlan, ByDefaultEveryTaskSeesAllGpusInTheSameOrder) {
  EXPECT_EQ(Seen("-n2", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"0,1,2,3", "0,1,2,3"}));
  EXPECT_EQ(Seen("-n2", FourGpus(), "SLURM_STEP_GPUS"), (Texts{"4,5,6,7", "4,5,6,7"}));
}

TEST(StepPlan, WithGpusPerTaskEachTaskSeesItsOwnGpusFirst) {
  EXPECT_EQ(Seen("-n4 --gpus-per-task=1", FourGpus(), "CUDA_VISIBLE_DEVICES"),
            (Texts{"0,1,2,3", "1,0,2,3", "2,0,1,3", "3,0,1,2"}));
  EXPECT_EQ(Seen("-n4 --gpus-per-task=1", FourGpus(), "SLURM_STEP_GPUS"), (Texts{"4", "5", "6", "7"}));
  EXPECT_EQ(Seen("-n2 --gpus-per-task=2", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"0,1,2,3", "2,3,0,1"}));
  EXPECT_EQ(Seen("", FourGpus({"SLURM_NTASKS=2", "SLURM_GPUS_PER_TASK=2"}), "CUDA_VISIBLE_DEVICES"),
            (Texts{"0,1,2,3", "2,3,0,1"}));
}

TEST(StepPlan, GpuBindingHidesOtherGpus) {
  EXPECT_EQ(Seen("-n2 --gpu-bind=single:1", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"0", "1"}));
  EXPECT_EQ(Seen("-n2 --gpu-bind=map_gpu:3,2", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"3", "2"}));
  EXPECT_EQ(Seen("-n2 --gpu-bind=mask_gpu:3,c", FourGpus(), "CUDA_VISIBLE_DEVICES"), (Texts{"0,1", "2,3"}));
  EXPECT_EQ(Seen("-n2 --tres-bind=gres/gpu:per_task:2 --gpus-per-task=2", FourGpus(), "CUDA_VISIBLE_DEVICES"),
            (Texts{"0,1", "2,3"}));
  EXPECT_EQ(Seen("-n2 --gpu-bind=none --gpus-per-task=2", FourGpus(), "CUDA_VISIBLE_DEVICES"),
            (Texts{"0,1,2,3", "0,1,2,3"}));
}

TEST(StepPlan, SetsRankAndTaskCountVariables) {
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

TEST(StepPlan, TheStepMapIsReusedOnlyForTheSameOptions) {
  StepCall call;
  call.environment = FourGpus().environment;
  call.directory = "/w";
  const std::vector<std::vector<int>> machine;
  const auto plan = [&](const Texts& words) { return PlanSrun(call, words, machine, {"", "box", "eva"}); };
  const auto first = plan({"-n2", "--gpus=2", "a", "x"});
  const auto second = plan({"-n2", "--gpus=2", "b", "-n3"});
  const auto third = plan({"-n2", "b"});
  const auto fourth = plan({"-n2", "--gpus=9", "b"});
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->command, "a x");
  EXPECT_EQ(second->command, "b -n3");
  EXPECT_EQ(second->need.gpus, 2u);
  EXPECT_EQ(third->need.gpus, std::nullopt);
  EXPECT_FALSE(fourth) << "the job has four";
  EXPECT_FALSE(plan({"-n2"}));
  call.environment.push_back("SLURM_GPUS_PER_TASK=1");
  const auto changed = plan({"-n2", "b"});
  ASSERT_TRUE(changed);
  const auto tasks = changed->make(0, {0, 1});
  ASSERT_TRUE(tasks);
  EXPECT_EQ(EnvironmentValue(tasks->tasks[1].environment, "SLURM_STEP_GPUS"), "5")
      << "another environment, another meaning";
}

TEST(StepPlan, MoreGpusThanTheJobHasAreRefused) {
  JobSpec spec;
  const dialect::ParseContext nowhere;
  const std::vector<std::string> words = {"--gpus=5"};
  ASSERT_TRUE(dialect::ParseOptions(dialect::SbatchOptions(spec, nowhere), words));
  const auto ask = ReadStepOptions(spec, FourGpus());
  ASSERT_FALSE(ask);
  EXPECT_EQ(ask.error().message, "Unable to create step for job 17: it asks for 5 GPUs, the job has 4");
}

TEST(StepPlan, RefusesNodesOutsideASingleNodeJob) {
  StepCall call;
  call.environment = FourGpus({"DIVVY_NODE=n1.lab"}).environment;
  call.directory = "/w";
  const std::vector<std::vector<int>> machine;
  const auto why = [&](const Texts& words) {
    const auto plan = PlanSrun(call, words, machine, {"", "box", "eva"});
    return plan ? "on " + plan->host : plan.error().message;
  };
  for (const Texts& words : {Texts{"-w", "n1", "true"}, Texts{"-w", "n1.lab", "true"}, Texts{"-N1", "-x", "n2", "true"},
                             Texts{"-N1-4", "true"}, Texts{"-r0", "true"}})
    EXPECT_EQ(why(words), "on n1.lab") << Join(words, " ");
  const std::string begin = "srun: error: Unable to create step for job 17: ";
  EXPECT_EQ(why({"-w", "n1,n2", "true"}), begin + "'n2' is not one of the job's nodes: n1");
  EXPECT_EQ(why({"-x", "n[1-3]", "true"}), begin + "it excludes every node of the job");
  EXPECT_EQ(why({"-N2", "true"}), begin + "it asks for 2 nodes, the job has 1");
  EXPECT_EQ(why({"-r", "1", "true"}), begin + "the step begins at node 1 of the job's nodes, but the last one is 0");
  // Hosts behind the last task's do not matter.
  EXPECT_EQ(why({"-n1", "-m", "arbitrary", "-w", "n1,n2", "true"}), "on n1.lab");
  EXPECT_EQ(why({"-m", "arbitrary", "-w", "n1,n2", "true"}), begin + "'n2' is not one of the job's nodes: n1");
  const std::string file = testing::TempDir() + "divvy-hosts." + std::to_string(::getpid());
  std::ofstream(file) << "n1\nn2\n";
  call.environment.push_back("SLURM_HOSTFILE=" + file);
  EXPECT_EQ(why({"true"}), begin + "'n2' is not one of the job's nodes: n1");
  call.environment.push_back("SLURM_NTASKS=1");
  EXPECT_EQ(why({"true"}), "on n1.lab") << "the job's number of tasks";
  std::filesystem::remove(file);
}

/// The hosts of the tasks for `words`, with this hostfile; or the error.
std::string Hosts(const std::string& words, const std::string& file, bool is_srun = true) {
  JobSpec spec;
  dialect::ParseContext around;
  around.environment = {"SLURM_HOSTFILE=" + std::string(file.empty() ? "" : "hosts")};
  around.read_file = [&](const std::string& path) -> Result<std::string> {
    return path == "hosts" ? Result<std::string>(file) : NotFound(path);
  };
  const auto split = ShellSplit(words).value_or(std::vector<std::string>());
  EXPECT_TRUE(dialect::ParseOptions(dialect::SbatchOptions(spec, around), split));
  const auto hosts = dialect::TaskHosts(spec, around, is_srun);
  return hosts ? Join(*hosts, " ") : hosts.error().message;
}

TEST(StepPlan, AHostfileListsTheNodeOfEachTask) {
  EXPECT_EQ(Hosts("-m arbitrary", "n2\n  n1 # the second\n\n# none\nn2\n"), "n2 n1 n2");
  EXPECT_EQ(Hosts("-m arbitrary", "n[3,1],n9\nn1*3\n"), "n3 n1 n9 n1 n1 n1");
  EXPECT_EQ(Hosts("-m arbitrary", "n2,n1*2\nn1*2, n[2,3]*2 n4"), "n2 n1 n1 n1 n1 n2 n3 n2 n3 n4");
  EXPECT_EQ(Hosts("-m arbitrary -n2", "n2\nn1\nn3"), "n2 n1") << "one for each task";
  EXPECT_EQ(Hosts("", "n2"), "n2") << "srun reads it without -m";
  EXPECT_EQ(Hosts("", "n2", false), "") << "others need -m arbitrary";
  EXPECT_EQ(Hosts("-m arbitrary", "n2", false), "n2");
  EXPECT_EQ(Hosts("-w n1,n2", "n2"), "") << "a list of nodes wins over the file";
  EXPECT_EQ(Hosts("-m arbitrary -w n2,n1,n1", "n5"), "n2 n1 n1");
  EXPECT_EQ(Hosts("-m arbitrary", ""), "");
  EXPECT_EQ(Hosts("-m arbitrary", "# none\n"), "SLURM_HOSTFILE=hosts: it lists no host; write one on each line");
  for (const char* wrong : {"n1*0", "n1*", "n1*x", "n1*65537", "*3", "n1 *3", "n[1-65536]*2", "n[1,n2*2", "n1]*2"}) {
    EXPECT_TRUE(Hosts("-m arbitrary", wrong).starts_with("SLURM_HOSTFILE=hosts: ")) << wrong;
  }
}

TEST(StepPlan, AListOfHostsSetsTheTasksOfAStep) {
  const JobAround around = FourGpus({"SLURM_NNODES=3"});
  const auto ask = [&](const std::string& words) {
    JobSpec spec;
    const dialect::ParseContext nowhere;
    EXPECT_TRUE(dialect::ParseOptions(dialect::SbatchOptions(spec, nowhere), *ShellSplit(words)));
    return ReadStepOptions(spec, around, true, {"n2", "n1", "n2"});
  };
  ASSERT_TRUE(ask("-m arbitrary -w n2,n1,n2"));
  EXPECT_EQ(ask("-m arbitrary -w n2,n1,n2")->layout.tasks, 3);
  EXPECT_EQ(ask("")->layout.nodes, 0) << "not those of the job";
  EXPECT_TRUE(ask("-m arbitrary -w n2,n1,n2")->machines.empty());
  EXPECT_EQ(ask("-n2")->layout.tasks, 2);
  EXPECT_EQ(ask("-n2")->task_hosts, (Texts{"n2", "n1"}));
}

TEST(StepPlan, AListOfHostsSetsTheNodesOfAJob) {
  const auto apply = [](const std::string& words) {
    JobSpec spec;
    const dialect::ParseContext nowhere;
    EXPECT_TRUE(dialect::ParseOptions(dialect::SbatchOptions(spec, nowhere), *ShellSplit(words)));
    EXPECT_TRUE(dialect::ApplyTaskHosts(nowhere, true, spec));
    EXPECT_TRUE(dialect::FinishSlurm(spec));
    return spec;
  };
  const JobSpec spec = apply("-m arbitrary -w n2,n1,n2");
  EXPECT_EQ(spec.request.nodes, 2);
  EXPECT_EQ(spec.request.tasks, 3);
  EXPECT_EQ(spec.request.node_list, (Texts{"n2", "n1"}));
  EXPECT_EQ(apply("-m arbitrary -n1 -w n2,n1,n2").request.node_list, (Texts{"n2"})) << "the first entries";
}

TEST(StepPlan, JobAndNodeAreFoundByTheirSlurmVariables) {
  StepCall call;
  call.environment = {"DIVVY_JOB_ID=17", "DIVVY_NODE=n1.lab"};
  call.directory = "/w";
  const std::vector<std::vector<int>> machine;
  const auto plan = PlanSrun(call, {"true"}, machine, {"", "box", "eva"});
  ASSERT_TRUE(plan) << plan.error().message;
  const auto tasks = plan->make(0, {});
  ASSERT_TRUE(tasks);
  const auto value = [&](std::string_view name) { return EnvironmentValue(tasks->tasks[0].environment, name); };
  for (const char* name : {"SLURM_JOB_ID", "SLURM_JOBID"}) EXPECT_EQ(value(name), "17") << name;
  for (const char* name : {"SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "SLURM_STEP_NODELIST"})
    EXPECT_EQ(value(name), "n1") << name;
  for (const char* name : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}) EXPECT_EQ(value(name), "1") << name;
}

TEST(StepPlan, VariablesOfAnOuterJobAreReplacedForACallFromOutside) {
  std::vector<std::string> environment = {"SLURMD_NODENAME=g2", "SLURM_JOB_ID=17", "HOME=/h"};
  TakeJobsWords(environment, {"SLURMD_NODENAME=g1", "DIVVY_JOB_ID=15"});
  EXPECT_EQ(environment, (Texts{"HOME=/h", "SLURMD_NODENAME=g1", "DIVVY_JOB_ID=15"}));
}

TEST(StepPlan, OnlyDivvysOwnJobsCountAsInsideAJob) {
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
  EXPECT_EQ(*ReadMultiProg("0 ./a b\\\nc \\\nd\n", 1), (std::vector<Texts>{{"./a", "bc", "d"}})) << "continued lines";
  EXPECT_FALSE(ReadMultiProg("0 ./a\n", 2));
  EXPECT_FALSE(ReadMultiProg("0\n", 1));
  EXPECT_FALSE(ReadMultiProg("x ./a\n", 1));
}

dialect::ParseContext Around() {
  dialect::ParseContext around;
  around.directory = "/w";
  around.hostname = "box";
  around.environment = {"SBATCH_PARTITION=gpu"};
  around.read_file = [](const std::string& path) -> Result<std::string> {
    if (path == "t.sh") return std::string("#!/bin/sh\n#SBATCH --gres=gpu:2 -t 10\n./x\n");
    if (path == "plain.sh") return std::string("echo hi\n");
    if (path == "fraction.sh") return std::string("#!/bin/sh\n#SBATCH --gres=gpu:1\n#DIVVY --gpus 0.25\n./x\n");
    return NotFound(path);
  };
  return around;
}

Result<BatchRequest> Batch(const std::vector<std::string>& words) {
  return ReadBatchRequest(words, Around(), [] { return Result<std::string>("#!/bin/sh\n#SBATCH -n 3\n"); });
}

TEST(StepPlan, TaskPrologAndEpilogRunAroundTheCommand) {
  EXPECT_EQ(WithHooks({}, {"./solve", "x y"}), (Texts{"./solve", "x y"}));
  const Texts hooked = WithHooks({"./pro", ""}, {"./solve", "x y"});
  ASSERT_EQ(hooked.size(), 8u);
  EXPECT_EQ(hooked.front(), "/bin/sh");
  EXPECT_EQ(Texts(hooked.begin() + 3, hooked.end()), (Texts{"srun", "./pro", "", "./solve", "x y"}));
  EXPECT_EQ(ProgramOf("/opt/bin/solve"), "solve");
}

TEST(Sbatch, WrapMayFollowAnyComponent) {
  for (const std::vector<std::string>& words :
       {Texts{"-n1", ":", "-N1", "--wrap", "hostname"}, Texts{"-n1", "--wrap", "hostname", ":", "-N1"}}) {
    const auto request = Batch(words);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_NE(request->spec.script.find("\nhostname\n"), std::string::npos) << request->spec.script;
    ASSERT_EQ(request->spec.request.components(), 2u);
    EXPECT_EQ(request->spec.labels.count("slurm.client.wrap"), 0u);
    EXPECT_EQ(request->spec.request.others[0].labels.count("slurm.client.wrap"), 0u);
  }
}

TEST(Sbatch, DivvyLinesOfTheScriptApplyLast) {
  const auto request = Batch({"fraction.sh"});
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->spec.request.portion.request, GpuShare(GpuShare::kWhole / 4));
}

TEST(Sbatch, CommandLineWinsOverEnvironmentAndScript) {
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

}  // namespace slurm_steps_test
}  // namespace divvy::cli::slurm
