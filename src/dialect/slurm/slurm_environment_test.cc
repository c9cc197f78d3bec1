#include "dialect/slurm/slurm_environment.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dialect/options/slurm_hostlist.h"
#include "dialect/options/test_surroundings.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace slurm_environment_test {

JobSpec Spec(const std::string& line) {
  JobSpec spec;
  const ParseContext around = TestParseContext();
  EXPECT_TRUE(ApplySlurmLines("#!/bin/sh\n#SBATCH " + line + "\n", "job.sh", around, spec));
  EXPECT_TRUE(FinishSlurm(spec));
  return spec;
}

JobRecord Record(const JobSpec& spec) {
  JobRecord record;
  record.id = JobId(17);
  record.name = "train";
  record.user = {.uid = 1000, .gid = 100, .name = "ada"};
  record.request = spec.request;
  record.time_limit = spec.time_limit;
  record.started = kTestNow;
  return record;
}

std::string ValueIn(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "<unset>";
}

TEST(SlurmEnvironment, AOneGpuJobHasTheVariablesThatScriptsUse) {
  const JobSpec spec = Spec("--gres=gpu:1 -t 60");
  const auto environment = SlurmEnvironment(Record(spec), spec, {3}, "box.example.org", kTestNow);
  EXPECT_TRUE(std::ranges::is_sorted(environment));
  const std::pair<const char*, const char*> wanted[] = {{"SLURM_JOB_ID", "17"},
                                                        {"SLURM_JOBID", "17"},
                                                        {"SLURM_JOB_NAME", "train"},
                                                        {"SLURM_JOB_NODELIST", "box"},
                                                        {"SLURM_NODELIST", "box"},
                                                        {"SLURM_NNODES", "1"},
                                                        {"SLURM_JOB_NUM_NODES", "1"},
                                                        {"SLURM_PROCID", "0"},
                                                        {"SLURM_LOCALID", "0"},
                                                        {"SLURM_NODEID", "0"},
                                                        {"SLURM_JOB_GPUS", "3"},
                                                        {"SLURM_GPUS_ON_NODE", "1"},
                                                        {"SLURM_CLUSTER_NAME", "divvy"},
                                                        {"SLURM_SUBMIT_DIR", "/home/ada/work"},
                                                        {"SLURM_SUBMIT_HOST", "box"},
                                                        {"SLURM_JOB_USER", "ada"},
                                                        {"SLURM_UMASK", "0022"},
                                                        {"SLURM_JOB_UID", "1000"},
                                                        {"SLURM_JOB_PARTITION", "main"},
                                                        {"SLURM_JOB_START_TIME", "1772452800"},
                                                        {"SLURM_JOB_END_TIME", "1772456400"},
                                                        {"SLURM_CPUS_ON_NODE", "1"},
                                                        {"SLURM_TASKS_PER_NODE", "1"}};
  for (const auto& [name, value] : wanted) EXPECT_EQ(ValueIn(environment, name), value) << name;
  // Programs take these variables as a sign that srun started several tasks.
  for (const char* name :
       {"SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SLURM_GPUS_PER_TASK", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT"}) {
    EXPECT_EQ(ValueIn(environment, name), "<unset>") << name;
  }
}

TEST(SlurmEnvironment, RequestedOptionsAreExported) {
  const JobSpec spec =
      Spec("-n 4 -c 2 --gpus-per-task=1 --mem=8G --qos=high --partition=a100 --account=proj --comment=x");
  const auto environment = SlurmEnvironment(Record(spec), spec, {0, 1, 2, 3}, "box", kTestNow);
  const std::pair<const char*, const char*> wanted[] = {
      {"SLURM_NTASKS", "4"},          {"SLURM_NPROCS", "4"},        {"SLURM_CPUS_PER_TASK", "2"},
      {"SLURM_CPUS_ON_NODE", "8"},    {"SLURM_GPUS_PER_TASK", "1"}, {"SLURM_JOB_GPUS", "0,1,2,3"},
      {"SLURM_MEM_PER_NODE", "8192"}, {"SLURM_JOB_QOS", "high"},    {"SLURM_JOB_PARTITION", "a100"},
      {"SLURM_JOB_ACCOUNT", "proj"},  {"SLURM_TASKS_PER_NODE", "4"}};
  for (const auto& [name, value] : wanted) EXPECT_EQ(ValueIn(environment, name), value) << name;
}

TEST(SlurmEnvironment, AnArrayElementHasItsIndexVariables) {
  const JobSpec spec = Spec("--array=3-9:3");
  JobRecord record = Record(spec);
  record.id = JobId(20);
  record.array = JobId(17);
  record.array_index = 6;
  record.restarts = 2;
  const auto environment = SlurmEnvironment(record, spec, {}, "box", kTestNow);
  const std::pair<const char*, const char*> wanted[] = {
      {"SLURM_JOB_ID", "20"},          {"SLURM_ARRAY_JOB_ID", "17"},  {"SLURM_ARRAY_TASK_ID", "6"},
      {"SLURM_ARRAY_TASK_COUNT", "3"}, {"SLURM_ARRAY_TASK_MIN", "3"}, {"SLURM_ARRAY_TASK_MAX", "9"},
      {"SLURM_ARRAY_TASK_STEP", "3"},  {"SLURM_RESTART_COUNT", "2"},  {"SLURM_GPUS_ON_NODE", "<unset>"}};
  for (const auto& [name, value] : wanted) EXPECT_EQ(ValueIn(environment, name), value) << name;
}

TEST(SlurmEnvironment, EachComponentHasItsOwnVariables) {
  JobSpec spec;
  const std::vector<std::string> words = {"-n2", "--gpus-per-task=1", ":", "-N2", "-c4", "-p", "big", "x"};
  const ParseContext around = TestParseContext();
  ASSERT_TRUE(ReadSlurmWords(SbatchOptions(spec, around), words, around, spec));
  ASSERT_TRUE(FinishSlurm(spec));
  spec.dialect = Dialect::kSlurm;
  JobRecord record;
  record.id = JobId(12);
  record.request = spec.request;
  record.request.tasks = 3;  // On the first node, for both components.
  SlurmNodes nodes;
  nodes.names = {"n1", "n2"};
  nodes.tasks = {3, 1};
  nodes.cpus = {6, 4};
  nodes.parts = {{{0, GpuSet::Of({0, 1}), 2}, {1, GpuSet(), 1}}, {{1, GpuSet(), 1}}};
  const std::vector<std::string> all = SlurmEnvironment(record, spec, {0, 1}, "n1", kNoTime, nodes);
  const auto value = [&](const std::string& name) {
    for (const std::string& entry : all) {
      if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    }
    return std::string("(unset)");
  };
  EXPECT_EQ(value("SLURM_HET_SIZE"), "2");
  EXPECT_EQ(value("SLURM_JOB_ID"), "12");
  EXPECT_EQ(value("SLURM_JOB_ID_HET_GROUP_1"), "13");
  EXPECT_EQ(value("SLURM_JOB_NODELIST"), "n1") << "as of the first component";
  EXPECT_EQ(value("SLURM_NNODES"), "1");
  EXPECT_EQ(value("SLURM_NTASKS"), "2");
  EXPECT_EQ(value("SLURM_NTASKS_HET_GROUP_0"), "2");
  EXPECT_EQ(value("SLURM_GPUS_PER_TASK_HET_GROUP_0"), "1");
  EXPECT_EQ(value("SLURM_JOB_GPUS_HET_GROUP_0"), "0,1");
  EXPECT_EQ(value("SLURM_JOB_NODELIST_HET_GROUP_1"), "n[1-2]");
  EXPECT_EQ(value("SLURM_NNODES_HET_GROUP_1"), "2");
  EXPECT_EQ(value("SLURM_CPUS_PER_TASK_HET_GROUP_1"), "4");
  EXPECT_EQ(value("SLURM_CPUS_PER_TASK"), "(unset)") << "not said of the first";
  EXPECT_EQ(value("SLURM_GPUS_PER_TASK_HET_GROUP_1"), "(unset)");
  EXPECT_EQ(value("SLURM_JOB_GPUS_HET_GROUP_1"), "(unset)");
  EXPECT_EQ(value("SLURM_JOB_PARTITION_HET_GROUP_1"), "big");
}

TEST(SlurmEnvironment, VariablesOfAnOuterJobDoNotLeakIntoANewOne) {
  const std::vector<std::string> before = {
      "PATH=/bin",  "SLURM_JOB_ID=3", "SLURM_CONF=/etc/x", "SLURMD_NODENAME=n1", "SRUN_DEBUG=3",
      "PMI_RANK=0", "PMIX_RANK=0",    "SBATCH_GRES=gpu:1", "SQUEUE_FORMAT=%i",   "MY_SLURM_=1"};
  EXPECT_EQ(ScrubInherited(before), (std::vector<std::string>{"PATH=/bin", "SLURM_CONF=/etc/x", "SBATCH_GRES=gpu:1",
                                                              "SQUEUE_FORMAT=%i", "MY_SLURM_=1"}));
  JobSpec spec = Spec("--gpus=1");
  spec.capture.environment = before;
  CompleteSlurm(spec, std::nullopt);
  CompleteSlurm(spec, std::nullopt);
  EXPECT_EQ(spec.capture.environment.size(), 5u);
}

TEST(SlurmHostList, ExpandsRangesZerosAndSeveralBrackets) {
  EXPECT_EQ(*ExpandHostList("n[1-3,5],login"), (std::vector<std::string>{"n1", "n2", "n3", "n5", "login"}));
  EXPECT_EQ(*ExpandHostList("a[08-11]"), (std::vector<std::string>{"a08", "a09", "a10", "a11"}));
  EXPECT_EQ(*ExpandHostList("r[1-2]n[1-2]"), (std::vector<std::string>{"r1n1", "r1n2", "r2n1", "r2n2"}));
  EXPECT_EQ(*ExpandHostList("a[0-1]b[2,3]c[4-5]"),
            (std::vector<std::string>{"a0b2c4", "a0b2c5", "a1b2c4", "a1b2c5", "a0b3c4", "a0b3c5", "a1b3c4", "a1b3c5"}))
      << "the order of Slurm: the last brackets, then the others from the left";
  EXPECT_EQ(*SplitHostList("n[1-3,5], n1*4"), (std::vector<std::string_view>{"n[1-3,5]", "n1*4"}));
  EXPECT_EQ(*ExpandHostList("box"), (std::vector<std::string>{"box"}));
  for (const char* wrong : {"n[1-", "n1-3]", "n[3-1]", "n[a-b]", "n[[1]]", "n[1-99999999]", "n[]"}) {
    EXPECT_FALSE(ExpandHostList(wrong)) << wrong;
  }
}

TEST(SlurmHostList, FoldsAdjacentHostsAndReadsThemBack) {
  EXPECT_EQ(FoldHostList({"n1", "n2", "n3", "n5", "a08", "a09"}), "n[1-3,5],a[08-09]");
  EXPECT_EQ(FoldHostList({"n1", "n3", "n2", "x"}), "n[1,3,2],x");
  EXPECT_EQ(FoldHostList({"n9", "n10", "box"}), "n[9-10],box");
  EXPECT_EQ(FoldHostList({"n09", "n010"}), "n09,n010");
  for (const std::string& list : {std::string("n[1-3,5],a[08-09]"), std::string("login"), std::string("n[9-11],n7")}) {
    EXPECT_EQ(*ExpandHostList(FoldHostList(*ExpandHostList(list))), *ExpandHostList(list));
  }
}

}  // namespace slurm_environment_test
}  // namespace divvy::dialect
