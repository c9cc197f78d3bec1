#include "dialect/options/node_options.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "dialect/options/job_options.h"
#include "dialect/options/task_options.h"
#include "dialect/options/test_surroundings.h"

namespace divvy::dialect {
namespace node_options_test {

using Names = std::vector<std::string>;

Result<JobSpec> Read(const std::string& words) {
  JobSpec spec;
  const ParseContext around = TestParseContext();
  DIVVY_TRY(const Parsed parsed,
            ParseOptions(JobOptions(spec, around), ShellSplit(words).value_or(Names()), {true, true, false}));
  spec.command = parsed.after_dashes;
  CompleteTasks(spec);
  DIVVY_CHECK(CheckComplete(spec));
  return spec;
}

std::string ErrorOf(const std::string& words) {
  const auto spec = Read(words);
  return spec ? "was accepted" : spec.error().message;
}

TEST(NodeOptions, ReadNodeCountAndNodeLists) {
  const auto spec = Read("-N 2 -g 4 -C 'ib&(nvme|ssd)' --nodelist 'n[1-3]' -x n3,n9 -- x");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->request.nodes, 2);
  EXPECT_EQ(spec->request.gpus, 4) << "of each machine";
  EXPECT_EQ(spec->request.tasks, 2);
  EXPECT_EQ(spec->request.constraint, "ib&(nvme|ssd)");
  EXPECT_EQ(spec->request.node_list, (Names{"n1", "n2", "n3"}));
  EXPECT_EQ(spec->request.excluded_nodes, (Names{"n3", "n9"}));
}

TEST(NodeOptions, AreReadFromScriptLinesToo) {
  JobSpec spec;
  ASSERT_TRUE(
      ReadScript("#!/bin/sh\n# DIVVY --nodes 2 --gpus 4\n# DIVVY -C ib\nx\n", "job.sh", TestParseContext(), spec));
  EXPECT_EQ(spec.request.nodes, 2);
  EXPECT_EQ(spec.request.constraint, "ib");
}

TEST(NodeOptions, AreReadBackFromTheCommandLine) {
  EXPECT_EQ(Summarise(*Read("-N 2 -g 4 -- x")), "2 nodes with 4 GPUs each, 2 tasks");
  EXPECT_EQ(Summarise(*Read("-N 2 -g 4 --gpu-type h100 -c 8 --memory 16G -- x")),
            "2 nodes with 4 GPUs (h100) each, 8 CPUs each, 16 GiB of memory each, 2 tasks");
  EXPECT_EQ(Summarise(*Read("-N 2 -- x")), "2 nodes, no GPU, 2 tasks");
  EXPECT_EQ(Summarise(*Read("-g 1 -C ib --nodelist n1,n2,n3 -x n2 -- x")), "1 GPU, where ib, on n[1-3], not on n2");
  EXPECT_EQ(Summarise(*Read("-n 16 --gpus-per-task 1 -- x")), "16 GPUs, 16 tasks on as few nodes as possible");
}

TEST(NodeOptions, ConflictingOptionsAreBothNamed) {
  EXPECT_EQ(
      ErrorOf("-N 4 -n 3 -- x"),
      "--tasks 3 is fewer than --nodes 4, but each node runs at least one task; write --tasks 4, or omit --tasks");
  EXPECT_EQ(ErrorOf("-N 2 -n 1 -- x").substr(0, 32), "--tasks 1 is fewer than --nodes ");
  EXPECT_EQ(ErrorOf("-N 2 -g 2..8 -- x"),
            "--gpus 2..8 (an elastic job) needs a job on one node, but this one may have several; write --gpus 2, or "
            "omit --nodes and --gpus-per-task");
  EXPECT_EQ(ErrorOf("-N 2 --nodelist n1,n2 -x n2 -- x"),
            "--nodelist names 1 node that --exclude does not list, but --nodes requests 2; list more nodes, or "
            "request fewer");
  EXPECT_NE(ErrorOf("-C 'ib&' -- x").find("--constraint"), std::string::npos);
  EXPECT_NE(ErrorOf("-C 'ib)' -- x").find("character 3"), std::string::npos);
  EXPECT_NE(ErrorOf("--nodelist 'n[1-' -- x").find("n[1-4,7]"), std::string::npos);
  EXPECT_NE(ErrorOf("-x 'a;b' -- x").find("is not a valid node name"), std::string::npos);
  EXPECT_NE(ErrorOf("-N 0 -- x").find("from 1 to 10000"), std::string::npos);
}

TEST(NodeOptions, WithComponentsTheTopologyAppliesToThoseWithGpus) {
  const auto complete = [](const std::string& topology, int gpus, int other, int nodes = 1) {
    JobSpec spec = *Read("-g 2 --topology " + topology + " -N " + std::to_string(nodes) + " -- x");
    spec.request.gpus = gpus;
    spec.request.others.resize(1);
    spec.request.others[0].gpus = other;
    spec.request.others[0].nodes = spec.request.others[0].tasks = nodes;
    const Status done = CheckComplete(spec);
    return done ? "" : done.error().message;
  };
  EXPECT_EQ(complete("nvlink", 2, 0), "");
  EXPECT_EQ(complete("nvlink:required", 0, 2), "");
  EXPECT_EQ(complete("nvlink", 0, 0), "--topology needs GPUs; add --gpus 2");
  EXPECT_EQ(complete("rack", 1, 1, 2), "");
  EXPECT_NE(complete("rack:required", 1, 1, 2).find("does not work with several components"), std::string::npos);
  EXPECT_NE(complete("block:required", 1, 1, 2).find("omit ':required'"), std::string::npos);
}

TEST(NodeOptions, ASpecificationFromAnySourceIsCheckedAlike) {
  JobSpec spec;
  spec.command = {"x"};
  EXPECT_TRUE(CheckComplete(spec));
  spec.request.nodes = 2;
  EXPECT_FALSE(CheckComplete(spec)) << "one task";
  spec.request.tasks = 2;
  EXPECT_TRUE(CheckComplete(spec));
  spec.request.spreads_tasks = true;
  EXPECT_FALSE(CheckComplete(spec));
  spec.request.spreads_tasks = false;
  spec.request.constraint = "a&|b";
  EXPECT_FALSE(CheckComplete(spec));
  spec.request.constraint.clear();
  spec.request.node_list = {"n1", ""};
  EXPECT_FALSE(CheckComplete(spec));
}

TEST(NodeOptions, AForegroundJobMayUseSeveralNodes) {
  JobSpec spec = *Read("-N 2 --pty -- x");
  spec.is_foreground = true;
  EXPECT_TRUE(CheckComplete(spec));
}

}  // namespace node_options_test
}  // namespace divvy::dialect
