#include "model/steps/step_resources.h"

#include <gtest/gtest.h>

#include "model/steps/step_list.h"

namespace divvy {
namespace step_resources_test {

using Places = std::vector<std::size_t>;

std::vector<StepNumber> Numbers(const std::vector<StepGrant>& grants) {
  std::vector<StepNumber> numbers;
  for (const StepGrant& grant : grants) numbers.push_back(grant.step);
  return numbers;
}

TEST(StepResources, EightStepsGetOneOfEightGpusEach) {
  StepResources resources(8, 0);
  for (StepNumber step = 0; step < 9; ++step) resources.Ask(step, {.gpus = 1});
  const auto grants = resources.TakeGrants();
  ASSERT_EQ(grants.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(grants[i].gpus, (Places{i}));
  EXPECT_TRUE(resources.IsWaiting(8));
  resources.Leave(3);
  const auto next = resources.TakeGrants();
  ASSERT_EQ(Numbers(next), (std::vector<StepNumber>{8}));
  EXPECT_EQ(next.front().gpus, (Places{3}));
}

TEST(StepResources, NoStepOvertakesALargeStepThatWaits) {
  StepResources resources(4, 0);
  resources.Ask(0, {.gpus = 3});
  resources.Ask(1, {.gpus = 2});
  resources.Ask(2, {.gpus = 1});
  EXPECT_EQ(Numbers(resources.TakeGrants()), (std::vector<StepNumber>{0}));
  resources.Leave(1);  // Gave up.
  EXPECT_EQ(Numbers(resources.TakeGrants()), (std::vector<StepNumber>{2}));
}

TEST(StepResources, AnOverlappingStepDoesNotWait) {
  StepResources resources(2, 0);
  resources.Ask(0, {.gpus = 2});
  resources.Ask(1, {.gpus = 1});
  resources.Ask(2, {});
  resources.Ask(3, {.gpus = 1, .overlaps = true});
  resources.Ask(4, {.gpus = 0});
  const auto grants = resources.TakeGrants();
  EXPECT_EQ(Numbers(grants), (std::vector<StepNumber>{0, 2, 3, 4}));
  EXPECT_EQ(grants[1].gpus, (Places{0, 1}));
  EXPECT_EQ(grants[2].gpus, (Places{0}));
  EXPECT_TRUE(grants[3].gpus.empty());
  resources.Leave(2);
  EXPECT_EQ(resources.free_gpus(), 0u) << "one that shared gives nothing back";
}

TEST(StepResources, AStepOverSeveralSetsGetsGpusFromEach) {
  StepResources resources(5, 0);
  StepNeed both;
  both.from = {{1, {0, 1}}, {2, {3, 4}}};
  EXPECT_TRUE(resources.CanEver(both));
  resources.Ask(1, both);
  auto grants = resources.TakeGrants();
  ASSERT_EQ(grants.size(), 1U);
  EXPECT_EQ(grants[0].gpus, (std::vector<std::size_t>{0, 3, 4}));
  // The second set has no free GPU, though other GPUs are free.
  StepNeed second;
  second.from = {{1, {3, 4}}};
  resources.Ask(2, second);
  EXPECT_TRUE(resources.TakeGrants().empty());
  resources.Leave(1);
  grants = resources.TakeGrants();
  ASSERT_EQ(grants.size(), 1U);
  EXPECT_EQ(grants[0].gpus, std::vector<std::size_t>{3});
  StepNeed more;
  more.from = {{3, {3, 4}}};
  EXPECT_FALSE(resources.CanEver(more));
  more.from = {{1, {7}}};
  EXPECT_FALSE(resources.CanEver(more)) << "no such place";
}

TEST(StepResources, CoresAreCountedIfTheJobCountsThem) {
  StepResources resources(0, 4);
  EXPECT_FALSE(resources.CanEver({.cores = 5}));
  EXPECT_FALSE(resources.CanEver({.gpus = 1}));
  resources.Ask(0, {.cores = 3});
  resources.Ask(1, {.cores = 2});
  EXPECT_EQ(Numbers(resources.TakeGrants()), (std::vector<StepNumber>{0}));
  resources.Leave(0);
  EXPECT_EQ(Numbers(resources.TakeGrants()), (std::vector<StepNumber>{1}));
  EXPECT_TRUE(StepResources(0, 0).CanEver({.cores = 5})) << "not counted";
}

TEST(StepList, TheLastLineOfAStepCounts) {
  StepLine step{.number = 3,
                .state = StepState::kRunning,
                .tasks = 2,
                .gpus = "0,1",
                .started = Time(Duration(5)),
                .map = {{"0", "0-3"}, {"1", ""}},
                .command = "sh -c\t'a\nb'"};
  std::string text = StepLineText(step);
  step.state = StepState::kEnded;
  step.code = 7;
  step.ended = Time(Duration(9));
  text += StepLineText(step);
  step.command = "sh -c 'a b'";
  EXPECT_EQ(ReadStepList(text + "rubbish\n1\t2\n"), (std::vector<StepLine>{step}));
}

TEST(StepList, AStepMayHaveANameAndListsItsNodes) {
  StepLine step{.number = 0, .command = "./solve big", .name = "phase 1"};
  step.machines = {{0, 2, GpuSet::Of({0, 1})}, {1, 2, GpuSet::Of({0, 1})}, {3, 1, {}}};
  const std::string text = StepLineText(step);
  EXPECT_TRUE(text.ends_with("\tphase 1\t0-1:2:0,1 3:1:\t\t\n")) << text;
  EXPECT_EQ(ReadStepList(text), (std::vector<StepLine>{step}));
  EXPECT_EQ(StepName(step), "phase 1");
  const std::string before = "0\t1\t2\t0,1\t5\t\t0\t\t./solve big\n";
  ASSERT_EQ(ReadStepList(before).size(), 1u) << "as it was written without the two";
  EXPECT_EQ(StepName(ReadStepList(before)[0]), "solve");
  EXPECT_TRUE(ReadStepList(before)[0].machines.empty());
  for (const std::string wrong : {"0-9999:1:", "1:1: 0:1:", "2-1:1:", "x:1:", "0:1:64", "0:1"}) {
    const auto read = ReadStepList("0\t1\t2\t\t5\t\t0\t\ttrue\tname\t" + wrong + "\n");
    ASSERT_EQ(read.size(), 1u) << wrong;
    EXPECT_TRUE(read[0].machines.empty()) << wrong;
  }
}

TEST(StepList, HasASizeLimitWhateverTheNodeCount) {
  std::vector<StepLine> steps;
  for (StepNumber number = 0; number < 200; ++number) {
    StepLine step{.number = number, .state = StepState::kEnded, .started = Time(Duration(1))};
    step.ended = Time(Duration(2));
    for (std::size_t node_index = 0; node_index < 4096; node_index += 2)
      step.machines.push_back({node_index, 1, GpuSet::FirstN(8)});
    if (number % 2 == 0) step.machines.resize(300);
    steps.push_back(std::move(step));
  }
  const std::string kept = KeptSteps(steps);
  EXPECT_LT(kept.size(), 32'000u);
  const auto read = ReadStepList(kept);
  ASSERT_FALSE(read.empty());
  EXPECT_EQ(read.back().number, 199u);
  EXPECT_TRUE(read.back().machines.empty()) << "too many to tell";
  EXPECT_EQ(read[read.size() - 2].machines.size(), 300u);
}

TEST(StepList, ShorteningKeepsRunningAndNewestSteps) {
  std::string text;
  for (StepNumber number = 0; number < 10; ++number) {
    StepLine step;
    step.number = number;
    step.state = number == 1 ? StepState::kRunning : StepState::kEnded;
    text += StepLineText(step);
  }
  const auto steps = ReadStepList(ShortenStepList(text, 2));
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].number, 1u);
  EXPECT_EQ(steps[1].number, 8u);
  EXPECT_EQ(steps[2].number, 9u);
}

TEST(StepList, WithAHundredThousandStepsTheLastAreKeptAndAllAreCounted) {
  std::vector<StepLine> steps;
  for (StepNumber number = 0; number < 100'000; ++number) {
    StepLine step;
    step.number = number;
    step.state = StepState::kEnded;
    step.started = Time(Duration(1));
    step.ended = Time(Duration(2));
    step.map = {{"0", "0-3"}};
    step.command = "/usr/bin/python3 " + std::string(500, 'x');
    steps.push_back(step);
  }
  steps.back().state = StepState::kRunning;
  StepLine waiting;
  waiting.number = 100'000;
  steps.push_back(waiting);
  const std::string kept = KeptSteps(steps);
  EXPECT_LT(kept.size(), 32'000u);
  EXPECT_EQ(StepCount(kept), 100'000);
  const auto read = ReadStepList(kept);
  ASSERT_EQ(read.size(), 200u);
  EXPECT_EQ(read.front().number, 99'800u);
  EXPECT_EQ(read.back().state, StepState::kRunning);
  EXPECT_TRUE(read.back().map.empty());
  EXPECT_EQ(StepName(read.back()), "python3");
  EXPECT_EQ(StepCount(KeptSteps({waiting})), 0) << "it never ran";
}

}  // namespace step_resources_test
}  // namespace divvy
