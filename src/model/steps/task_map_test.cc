#include "model/steps/task_map.h"

#include <gtest/gtest.h>

namespace divvy {
namespace task_map_test {

using Places = std::vector<std::size_t>;
using Cores = std::vector<int>;

/// Four GPUs, two on each of two NUMA nodes with four cores.
TaskGround TwoNodes() {
  return {.gpu_numa_nodes = {0, 0, 1, 1},
          .cores = {0, 1, 2, 3, 4, 5, 6, 7},
          .numa_node_cores = {{0, 1, 2, 3}, {4, 5, 6, 7}}};
}

TEST(TaskMap, TheTasksOwnGpuComesFirst) {
  const auto places = MapTasks({.tasks = 4, .gpus_per_task = 1}, TwoNodes());
  EXPECT_EQ(places[0].own, (Places{0}));
  EXPECT_EQ(places[2].seen, (Places{2, 0, 1, 3}));
  EXPECT_EQ(places[3].seen, (Places{3, 0, 1, 2}));
}

TEST(TaskMap, ByDefaultAllGpusAreSharedInTheSameOrder) {
  for (const TaskPlace& place : MapTasks({.tasks = 3}, TwoNodes())) {
    EXPECT_TRUE(place.own.empty());
    EXPECT_EQ(place.seen, (Places{0, 1, 2, 3}));
    EXPECT_TRUE(place.cores.empty());
  }
}

TEST(TaskMap, ABoundTaskSeesItsOwnGpusOnly) {
  EXPECT_EQ(MapTasks({.tasks = 2, .gpu_bind = "single:1"}, TwoNodes())[1].seen, (Places{1}));
  EXPECT_EQ(MapTasks({.tasks = 2, .gpu_bind = "v,map_gpu:3,2"}, TwoNodes())[1].seen, (Places{2}));
  EXPECT_EQ(MapTasks({.tasks = 2, .gpu_bind = "mask_gpu:0x3,c"}, TwoNodes())[1].seen, (Places{2, 3}));
  EXPECT_EQ(MapTasks({.tasks = 2, .gpus_per_task = 2, .gpu_bind = "none"}, TwoNodes())[1].seen, (Places{0, 1, 2, 3}));
  EXPECT_EQ(MapTasks({.tasks = 4, .tasks_per_gpu = 2}, TwoNodes())[3].own, (Places{1}));
}

TEST(TaskMap, ATaskRunsOnTheCoresOfItsGpusNumaNode) {
  const auto places = MapTasks({.tasks = 4, .gpus_per_task = 1}, TwoNodes());
  EXPECT_EQ(places[1].cores, (Cores{0, 1, 2, 3}));
  EXPECT_EQ(places[2].cores, (Cores{4, 5, 6, 7}));
  EXPECT_TRUE(MapTasks({.tasks = 4, .gpus_per_task = 1, .cpu_bind = "none"}, TwoNodes())[2].cores.empty());
}

TEST(TaskMap, OnlyCoresThatTheJobMayUseAreAssigned) {
  TaskGround ground = TwoNodes();
  ground.cores = {2, 3, 4};
  EXPECT_EQ(MapTasks({.tasks = 4, .gpus_per_task = 1}, ground)[0].cores, (Cores{2, 3}));
  EXPECT_EQ(MapTasks({.tasks = 4, .gpus_per_task = 1}, ground)[3].cores, (Cores{4}));
  ground.gpu_numa_nodes = {-1, -1, -1, -1};
  EXPECT_TRUE(MapTasks({.tasks = 4, .gpus_per_task = 1}, ground)[0].cores.empty()) << "unknown is not bound";
}

TEST(TaskMap, CoresRequestedByNumberAreAssignedOnce) {
  const auto places = MapTasks({.tasks = 4, .gpus_per_task = 1, .cpus_per_task = 2, .cpu_bind = "cores"}, TwoNodes());
  EXPECT_EQ(places[0].cores, (Cores{0, 1}));
  EXPECT_EQ(places[1].cores, (Cores{2, 3}));
  EXPECT_EQ(places[2].cores, (Cores{4, 5}));
  const auto many = MapTasks({.tasks = 5, .cpus_per_task = 2, .cpu_bind = "cores"}, TwoNodes());
  EXPECT_TRUE(many[4].cores.empty()) << "none is left, and none is shared by chance";
  EXPECT_EQ(MapTasks({.tasks = 2, .cpu_bind = "map_cpu:5,1"}, TwoNodes())[0].cores, (Cores{5}));
  EXPECT_EQ(MapTasks({.tasks = 2, .cpu_bind = "mask_cpu:0x3,0xf0"}, TwoNodes())[1].cores, (Cores{4, 5, 6, 7}));
  EXPECT_EQ(MapTasks({.tasks = 9, .cpu_bind = "rank"}, TwoNodes())[8].cores, (Cores{0}));
}

TEST(TaskMap, CoreListsAreReadInTheKernelsFormat) {
  EXPECT_EQ(ParseCoreList("0-2,8\n"), (Cores{0, 1, 2, 8}));
  EXPECT_EQ(CoreListText({0, 1, 2, 8}), "0-2,8");
  EXPECT_EQ(CoreMaskText({0, 1, 2, 9}), "0x207");
  EXPECT_TRUE(ParseCoreList("x").empty());
  EXPECT_LE(ParseCoreList("0-4000000000").size(), 4096u);
}

}  // namespace task_map_test
}  // namespace divvy
