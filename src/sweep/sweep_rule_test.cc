#include "sweep/sweep_rule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace divvy::sweep {
namespace sweep_rule_test {

SweepRule Asha() {
  SweepRule rule;
  rule.metric = "val loss";
  rule.halving = {EarlyStop::kAsha, 1, 81, 3};
  return rule;
}
std::string ErrorOf(const SweepRule& rule) {
  const Status good = CheckRule(rule);
  return good ? "" : good.error().message;
}
bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(SweepRule, ItsTextReadsBackAsTheSameRule) {
  SweepRule rule = Asha();
  rule.goal = Goal::kMaximize;
  rule.target = 0.1;
  rule.resource = "step";
  rule.parallel = 8;
  rule.is_told = true;
  rule.seed = 7;
  rule.method = "random";
  EXPECT_EQ(ParseRule(FormatRule(rule)), rule);
  EXPECT_EQ(ParseRule(FormatRule(SweepRule())), SweepRule());
}

TEST(SweepRule, WrongRulesAreRefusedInOneSentence) {
  SweepRule rule = Asha();
  rule.metric.clear();
  EXPECT_TRUE(Has(ErrorOf(rule), "needs the metric that trials report"));
  rule = Asha();
  rule.resource = rule.metric;
  EXPECT_TRUE(Has(ErrorOf(rule), "metric and resource are both 'val loss'"));
  rule = Asha();
  rule.halving.max = 0.5;
  EXPECT_TRUE(Has(ErrorOf(rule), "max_iter 0.5 of early_terminate is less than min_iter 1"));
  rule = Asha();
  rule.halving.eta = 1;
  EXPECT_TRUE(Has(ErrorOf(rule), "eta 1 of early_terminate is not allowed: use 2 to 1000"));
  rule = Asha();
  rule.halving = {EarlyStop::kHyperband, 1, 0, 3};
  EXPECT_TRUE(Has(ErrorOf(rule), "add max_iter"));
  rule = Asha();
  rule.target = std::nan("");
  EXPECT_TRUE(Has(ErrorOf(rule), "target"));
  rule = Asha();
  rule.parallel = -1;
  EXPECT_TRUE(Has(ErrorOf(rule), "parallel -1"));
}

TEST(SweepRule, AStrangersTextIsRefused) {
  for (const char* text : {"metric", "goal up", "stop asha 1 2", "stop none 1 nan 3", "parallel x", "colour red"})
    EXPECT_FALSE(ParseRule(text)) << text;
}

}  // namespace sweep_rule_test
}  // namespace divvy::sweep
