#include "dialect/sweep/sweep_file.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "dialect/options/job_options.h"

namespace divvy::dialect {
namespace sweep_file_test {

SweepPlan Read(std::string_view text) {
  const auto plan = ReadSweepFile(text, "sweep.yaml");
  EXPECT_TRUE(plan) << plan.error().message;
  return plan.value_or(SweepPlan());
}
std::string ErrorOf(std::string_view text) {
  auto plan = ReadSweepFile(text, "sweep.yaml");
  if (!plan) return plan.error().message;
  JobSpec spec;
  const Status done = CompleteSweep(*std::move(plan), spec);
  return done ? "" : done.error().message;
}
JobSpec SpecOf(std::string_view text) {
  JobSpec spec;
  const Status done = CompleteSweep(Read(text), spec);
  EXPECT_TRUE(done) << done.error().message;
  return spec;
}
bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr std::string_view kRandom = R"(
program: train.py
name: search
method: random
metric: {name: val_loss, goal: minimize, target: 0.1}
parameters:
  lr: {distribution: log_uniform_values, min: 0.0001, max: 0.1}
  batch: {values: [16, 32]}
  layers: {min: 1, max: 4}
  dropout: {min: 0.0, max: 0.5}
  optimizer: {value: adam}
early_terminate: {type: asha, min_iter: 2, max_iter: 54, eta: 3}
run_cap: 20
parallel: 4
resource: step
options: {gpus: 0.5, time: 2h, exclusive: false, hold: true}
)";

TEST(SweepFile, ReadsTheFormatOfWeightsAndBiases) {
  const SweepPlan plan = Read(kRandom);
  EXPECT_EQ(plan.method, SweepMethod::kRandom);
  EXPECT_EQ(plan.trials, 20U);
  EXPECT_EQ(plan.rule.metric, "val_loss");
  EXPECT_EQ(plan.rule.target, 0.1);
  EXPECT_EQ(plan.rule.resource, "step");
  EXPECT_EQ(plan.rule.parallel, 4);
  EXPECT_EQ(plan.rule.halving, (sweep::HalvingRule{sweep::EarlyStop::kAsha, 2, 54, 3}));
  ASSERT_EQ(plan.space.size(), 5U);
  EXPECT_EQ(plan.space[0].distribution, sweep::Distribution::kLogUniform);
  EXPECT_EQ(plan.space[2].distribution, sweep::Distribution::kIntUniform);
  EXPECT_EQ(plan.space[3].distribution, sweep::Distribution::kUniform);
  EXPECT_EQ(plan.space[4].values, (std::vector<std::string>{"adam"}));
  EXPECT_EQ(plan.options, (std::vector<std::string>{"--gpus=0.5", "--hold", "--time=2h"}));
  EXPECT_EQ(Join(plan.command, " "),
            "/usr/bin/env python train.py --lr={lr} --batch={batch} --layers={layers} --dropout={dropout} "
            "--optimizer={optimizer}");
}

TEST(SweepFile, BecomesAnArrayWithOneRowForEachTrial) {
  const JobSpec spec = SpecOf(kRandom);
  ASSERT_EQ(spec.parameters.size(), 5U);
  EXPECT_EQ(spec.parameters[0].values.size(), 20U);
  EXPECT_EQ(ElementCount(spec), 20U);
  const auto rule = sweep::ParseRule(spec.labels.at(std::string(sweep::kRuleLabel)));
  ASSERT_TRUE(rule);
  EXPECT_EQ(rule->method, "random");
  EXPECT_EQ(spec.name, "search");
}

TEST(SweepFile, AGridHasAllCombinations) {
  const JobSpec spec = SpecOf("method: grid\nparameters:\n  a: {values: [1, 2, 3]}\n  b: {values: [x, y]}\n");
  EXPECT_EQ(ElementCount(spec), 6U);
  EXPECT_EQ(ElementAt(spec, 1).parameters.at("b"), "y");
}

TEST(SweepFile, HyperbandHasAsManyTrialsAsItsBrackets) {
  const JobSpec spec = SpecOf(
      "method: random\nmetric: {name: loss}\nparameters: {a: {min: 0, max: 0.5}}\n"
      "early_terminate: {type: hyperband, max_iter: 81}\n");
  EXPECT_EQ(ElementCount(spec), 143U);
}

TEST(SweepFile, TheHyperbandOfWeightsAndBiasesStopsEachTrialByItself) {
  const SweepPlan plan = Read(
      "method: random\nrun_cap: 9\nmetric: {name: loss}\nparameters: {a: {min: 0, max: 0.5}}\n"
      "early_terminate: {type: hyperband, max_iter: 27, s: 2}\n");
  EXPECT_EQ(plan.rule.halving, (sweep::HalvingRule{sweep::EarlyStop::kAsha, 3, 27, 3}));
  EXPECT_EQ(plan.notes.size(), 1U);
}

TEST(SweepFile, ASweepThatAsksIsHeldAndHasEmptyRows) {
  const JobSpec spec = SpecOf("method: bayes\nrun_cap: 3\nparameters: {a: {min: 0, max: 0.5}}\n");
  EXPECT_TRUE(spec.is_held);
  EXPECT_EQ(spec.parameters[0].values, (std::vector<std::string>(3)));
  EXPECT_EQ(spec.notes.size(), 1U);
}

TEST(SweepFile, MistakesHaveTheirLineAndOneSentence) {
  const std::string random = "method: random\nrun_cap: 9\nparameters:\n";
  EXPECT_TRUE(Has(ErrorOf(random + "  a: {min: 3, max: 1}\n"),
                  "sweep.yaml:4: parameter 'a': min 3 is greater than max 1; swap them"));
  EXPECT_TRUE(Has(ErrorOf(random + "  a: {distribution: beta, min: 0, max: 1}\n"),
                  "sweep.yaml:4: parameter 'a': unknown distribution 'beta'; known: categorical"));
  EXPECT_TRUE(Has(ErrorOf(random + "  a: {min: 3}\n"), "needs both min and max"));
  EXPECT_TRUE(Has(ErrorOf(random + "  a: {vals: [1]}\n"), "unknown key 'vals'; did you mean 'val"));
  EXPECT_TRUE(Has(ErrorOf(random + "  'a b': {value: 1}\n"), "not a valid parameter name"));
  EXPECT_TRUE(Has(ErrorOf("method: bayesian\n"), "method 'bayesian' is not known; use grid, random or ask"));
  EXPECT_TRUE(Has(ErrorOf("method: random\nparameters: {a: {value: 1}}\n"), "add run_cap: 100"));
  EXPECT_TRUE(Has(ErrorOf("method: random\nrun_cap: 1000000\nparameters: {a: {value: 1}}\n"),
                  "not a whole number from 1 to 100000"));
  EXPECT_TRUE(Has(ErrorOf("method: grid\nparameters:\n  a: {min: 1, max: 1000}\n  b: {min: 1, max: 1000}\n"),
                  "the grid has 1000000 points, and a sweep has at most 100000 trials"));
  EXPECT_TRUE(Has(ErrorOf("method: grid\n"), "the sweep has no parameters"));
  EXPECT_TRUE(
      Has(ErrorOf(random + "  a: {value: 1}\nearly_terminate: {type: asha}\n"), "needs the metric that trials report"));
  EXPECT_TRUE(Has(ErrorOf("- a\n"), "the sweep: is a list, not a map of keys"));
  EXPECT_TRUE(Has(ErrorOf("method: [\n"), "not YAML"));
}

TEST(SweepFile, OptionsOfTheCommandLine) {
  const auto draw = ParseDraw("lr=log_uniform_values:1e-5:0.1");
  ASSERT_TRUE(draw) << draw.error().message;
  EXPECT_EQ(draw->min, 1e-5);
  EXPECT_EQ(draw->distribution, sweep::Distribution::kLogUniform);
  for (const char* bad : {"", "lr", "lr=uniform", "lr=uniform:1", "lr=uniform:a:b", "=uniform:1:2", "lr=uniform:2:1"})
    EXPECT_FALSE(ParseDraw(bad)) << bad;
  EXPECT_EQ(ParseHalving("1:81:4", sweep::EarlyStop::kAsha), (sweep::HalvingRule{sweep::EarlyStop::kAsha, 1, 81, 4}));
  EXPECT_EQ(ParseHalving("2", sweep::EarlyStop::kAsha), (sweep::HalvingRule{sweep::EarlyStop::kAsha, 2, 0, 3}));
  for (const char* bad : {"", "a", "1:2:3:4", "1:2:1.5"})
    EXPECT_FALSE(ParseHalving(bad, sweep::EarlyStop::kAsha)) << bad;
}

}  // namespace sweep_file_test
}  // namespace divvy::dialect
