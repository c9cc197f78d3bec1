#include "model/steps/task_layout.h"

#include <gtest/gtest.h>

namespace divvy {
namespace task_layout_test {

std::string Text(const LayoutRequest& ask, const std::vector<int>& capacities) {
  const auto layout = LayTasks(ask, capacities);
  return layout ? LayoutText(*layout) : layout.error().message;
}

TEST(TaskLayout, FirstNodesAreFilledFirst) {
  EXPECT_EQ(Text({.tasks = 6}, {4, 4}), "block 0:4,1:2");
  EXPECT_EQ(Text({.tasks = 3}, {4, 4}), "block 0:3");
  EXPECT_EQ(Text({}, {4, 2}), "block 0:4,1:2") << "all that the job has";
}

TEST(TaskLayout, RequestedNodesGetATask) {
  EXPECT_EQ(Text({.tasks = 4, .nodes = 2}, {4, 4}), "block 0:3,1:1");
  EXPECT_EQ(Text({.tasks = 1, .nodes = 2}, {4, 4}), "block 0:1") << "no machine without a task";
  EXPECT_EQ(Text({.nodes = 1}, {4, 4}), "block 0:4");
  EXPECT_EQ(Text({.tasks = 2, .node_indices = {2, 1}}, {1, 1, 1}), "block 1:1,2:1");
  EXPECT_EQ(Text({.nodes = 3}, {1, 1}), "it asks for 3 nodes, the job has 2");
  EXPECT_EQ(Text({.nodes = 2, .node_indices = {2}}, {1, 1, 1}), "block 0:1,2:1") << "those that are named, and others";
}

TEST(TaskLayout, ExcludedNodesGetNoTask) {
  EXPECT_EQ(Text({.tasks = 3, .left_out = {0}}, {4, 2, 4}), "block 1:2,2:1");
  EXPECT_EQ(Text({.nodes = 2, .left_out = {1}}, {1, 1, 1}), "block 0:1,2:1");
  EXPECT_EQ(Text({.nodes = 2, .left_out = {1}}, {1, 1}), "it asks for 2 nodes, the job has 2, of which it excludes 1");
  EXPECT_EQ(Text({.left_out = {0}}, {1}), "it excludes every node of the job");
  EXPECT_EQ(Text({.node_indices = {1}, .left_out = {1}}, {1, 1}), "the same node is both requested and excluded");
}

TEST(TaskLayout, TasksPerNodeAreKept) {
  EXPECT_EQ(Text({.nodes = 2, .tasks_per_node = 3}, {1, 1}), "block 0:3,1:3");
  EXPECT_EQ(Text({.tasks = 4, .tasks_per_node = 2}, {8, 8}), "block 0:2,1:2");
  EXPECT_EQ(Text({.tasks = 5, .tasks_per_node = 2}, {8, 8}), "5 tasks need more than 2 nodes with 2 on each");
}

TEST(TaskLayout, MoreTasksThanSlotsAreDistributedRoundRobin) {
  EXPECT_EQ(Text({.tasks = 7}, {2, 1}), "block 0:5,1:2");
  EXPECT_EQ(Text({.tasks = 4}, {0, 0}), "block 0:2,1:2");
}

TEST(TaskLayout, ListedNodesGetTheRanksInTheirOrder) {
  EXPECT_EQ(Text({.node_of_rank = {2, 0, 0, 2}}, {1, 1, 1}), "ranks 2:1,0:2,2:1");
  EXPECT_EQ(Text({.tasks = 2, .node_of_rank = {2, 0, 1}}, {1, 1, 1}), "ranks 2:1,0:1") << "the first entries";
  EXPECT_EQ(Text({.tasks = 4, .node_of_rank = {2, 0, 1}}, {1, 1, 1}),
            "4 tasks need 4 entries in the list of hosts, which has 3");
  EXPECT_EQ(Text({.nodes = 3, .node_of_rank = {1, 0}}, {1, 1, 1}), "it asks for 3 nodes, the list of hosts names 2");
  EXPECT_EQ(Text({.left_out = {1}, .node_of_rank = {1, 0}}, {1, 1}),
            "the list of hosts names a node that --exclude or --relative leaves out");
  EXPECT_EQ(Text({.node_of_rank = {3}}, {1, 1}), "the job has no node 3");
  const auto layout = ReadLayout("ranks 2:1,0:2,2:1");
  ASSERT_TRUE(layout);
  EXPECT_EQ(LayoutText(*layout), "ranks 2:1,0:2,2:1");
  EXPECT_EQ(layout->tasks(), 4);
  ASSERT_EQ(layout->machines.size(), 2U);
  EXPECT_EQ(layout->Ranks(), (std::vector<std::vector<int>>{{1, 2}, {0, 3}})) << "of nodes 0 and 2";
  for (const char* wrong :
       {"ranks ", "ranks 0", "ranks 0:0", "ranks 0:1:0", "ranks 0:1000001", "ranks 0:1000000,1:1"}) {
    EXPECT_FALSE(ReadLayout(wrong)) << wrong;
  }
}

TEST(TaskLayout, ANodeMayAppearInSeveralComponents) {
  const auto layout = ReadLayout("parts 0:2:0,0:1:1,2:2:1");
  ASSERT_TRUE(layout);
  EXPECT_EQ(LayoutText(*layout), "parts 0:2:0,0:1:1,2:2:1");
  EXPECT_EQ(layout->tasks(), 5);
  EXPECT_EQ(layout->Ranks(), (std::vector<std::vector<int>>{{0, 1}, {2}, {3, 4}}));
  for (const char* wrong : {"parts 0:2", "parts 0:1:1,0:1:0", "parts 1:1:0,0:1:0", "parts 0:0:0", "parts 0:1:999",
                            "block 0:1:0", "parts "}) {
    EXPECT_FALSE(ReadLayout(wrong)) << wrong;
  }
}

TEST(TaskLayout, RanksAreConsecutiveOrCyclic) {
  using Ranks = std::vector<std::vector<int>>;
  EXPECT_EQ((TaskLayout{{{0, 2}, {1, 3}}, false}.Ranks()), (Ranks{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ((TaskLayout{{{0, 2}, {1, 3}}, true}.Ranks()), (Ranks{{0, 2}, {1, 3, 4}}));
}

TEST(TaskLayout, EqualCountsAreFolded) {
  EXPECT_EQ(CountsText({2, 2, 2, 1}), "2(x3),1");
  EXPECT_EQ(CountsText({}), "");
}

TEST(TaskLayout, IsReadBackUnchanged) {
  const TaskLayout layout{{{0, 2}, {3, 1}}, true};
  EXPECT_EQ(ReadLayout(LayoutText(layout)), layout);
  for (const char* text : {"", "block", "block 0", "block 0:0", "block 1:1,1:1", "heap 0:1", "block 0:9999999"})
    EXPECT_EQ(ReadLayout(text), std::nullopt) << text;
}

}  // namespace task_layout_test
}  // namespace divvy
