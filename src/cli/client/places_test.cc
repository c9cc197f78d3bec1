#include "cli/client/places.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace places_test {

using Lines = std::vector<std::string>;

TEST(JobLocations, AJobIsOnOneNodeOrOnTheFirstAndACountOfMore) {
  wire::JobView job;
  EXPECT_EQ(NodeText(job, "head"), "") << "it waits";
  job.start_time = 1;
  EXPECT_EQ(NodeText(job, "head"), "head");
  job.node = "n1";
  EXPECT_EQ(NodeText(job, "head"), "n1");
  job.allocations = {{"n1", {}, 1}, {"", {}, 1}, {"n3", {}, 1}};
  EXPECT_EQ(NodeText(job, "head"), "n1+2");
  wire::JobView array;
  array.start_time = 1;
  array.count = 0;
  EXPECT_EQ(NodeText(array, "head"), "") << "its elements have begun, wherever they are";
}

TEST(JobLocations, EachNodeIsListedWithItsRanksAndGpus) {
  wire::JobDetail job;
  EXPECT_EQ(AllocationLines(job, ""), Lines());
  job.node = "n2";
  EXPECT_EQ(AllocationLines(job, ""), Lines{"n2"});
  wire::JobDetail own;
  EXPECT_EQ(AllocationLines(own, "head"), Lines()) << "it waits";
  own.start_time = 1;
  EXPECT_EQ(AllocationLines(own, "head"), Lines{"head"});
  job.allocations = {{"n2", {0, 1, 2, 3}, 3}, {"", {5}, 1}, {"n3", {}, 2}};
  EXPECT_EQ(AllocationLines(job, "head"),
            (Lines{"n2: ranks 0-2, GPUs 0-3", "head: rank 3, GPU 5", "n3: ranks 4-5, no GPU"}));
}

TEST(JobLocations, TheTimeLeftUntilADeadlineIsNotARequestedTimeLimit) {
  wire::RequestView request;
  request.time_limit_s = 3600;
  EXPECT_FALSE(EndsByDeadline(request, 1000));
  request.end_by = 4600.4;
  EXPECT_TRUE(EndsByDeadline(request, 1000));
  EXPECT_FALSE(EndsByDeadline(request, std::nullopt)) << "it waits, with the limit that it asked for";
  EXPECT_FALSE(EndsByDeadline(request, 500)) << "its own limit ends it before";
  request.time_limit_s = 0;
  EXPECT_FALSE(EndsByDeadline(request, 4600));
}

TEST(JobLocations, ARequestOnSeveralNodesIsShownPerNode) {
  wire::RequestView request;
  request.gpus = 4;
  EXPECT_EQ(GpuCount(request), "4");
  EXPECT_EQ(AsksFor(request), "4 GPUs");
  request.nodes = 2;
  request.tasks = 8;
  request.gpu_type = "h100";
  request.cpus = 8;
  request.memory_bytes = std::int64_t{16} << 30;
  request.constraint = "ib";
  request.node_list = {"n1", "n2", "n3"};
  request.excluded_nodes = {"n3"};
  EXPECT_EQ(GpuCount(request), "2x4");
  EXPECT_EQ(AsksFor(request),
            "2 nodes with 4 GPUs each of type h100, 8 CPUs each, 16 GiB of memory each, 8 tasks, where ib, on n[1-3], "
            "not on n3");
  wire::RequestView spread;
  spread.gpus = 16;
  spread.tasks = 16;
  spread.spreads_tasks = true;
  EXPECT_EQ(AsksFor(spread), "16 GPUs, 16 tasks on as few nodes as possible");
  wire::RequestView elastic;
  elastic.gpus = 2;
  elastic.max_gpus = 8;
  EXPECT_EQ(GpuCount(elastic), "2..8");
}

}  // namespace places_test
}  // namespace divvy::cli
