#include "sweep/search_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace divvy::sweep {
namespace search_space_test {

SpaceParameter Space(Distribution distribution, double min, double max) {
  SpaceParameter parameter;
  parameter.name = "x";
  parameter.distribution = distribution;
  parameter.min = min;
  parameter.max = max;
  return parameter;
}
SpaceParameter Choice(std::string name, std::vector<std::string> values) {
  SpaceParameter parameter;
  parameter.name = std::move(name);
  parameter.values = std::move(values);
  return parameter;
}
std::string ErrorOf(const SpaceParameter& parameter) {
  const Status good = CheckParameter(parameter);
  return good ? "" : good.error().message;
}
bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::vector<double> Many(const SpaceParameter& parameter) {
  std::vector<double> values;
  const std::vector<Parameter> columns = RandomColumns({parameter}, 5'000, 7);
  for (const std::string& text : columns.front().values) values.push_back(ParseNumber(text).value());
  return values;
}
double ShareBelow(const std::vector<double>& values, double limit) {
  const auto count = std::ranges::count_if(values, [&](double value) { return value < limit; });
  return static_cast<double>(count) / static_cast<double>(values.size());
}

TEST(SearchSpace, DrawsFollowTheirDistributions) {
  const auto uniform = Many(Space(Distribution::kUniform, 2, 4));
  EXPECT_NEAR(ShareBelow(uniform, 3), 0.5, 0.03);
  EXPECT_NEAR(ShareBelow(uniform, 2.5), 0.25, 0.03);
  const auto logarithmic = Many(Space(Distribution::kLogUniform, 1e-4, 1));
  EXPECT_NEAR(ShareBelow(logarithmic, 1e-2), 0.5, 0.03);
  const auto integers = Many(Space(Distribution::kIntUniform, 1, 4));
  for (int value = 1; value <= 4; ++value)
    EXPECT_NEAR(static_cast<double>(std::ranges::count(integers, value)) / 5'000, 0.25, 0.03);
  SpaceParameter normal;
  normal.name = "x";
  normal.distribution = Distribution::kNormal;
  normal.mu = 10;
  normal.sigma = 2;
  const auto bell = Many(normal);
  EXPECT_NEAR(ShareBelow(bell, 10), 0.5, 0.03);
  EXPECT_NEAR(ShareBelow(bell, 12), 0.841, 0.03);
  normal.distribution = Distribution::kQNormal;
  normal.q = 5;
  const auto rounded = Many(normal);
  EXPECT_TRUE(std::ranges::all_of(rounded, [](double value) { return std::fmod(value, 5) == 0; }));
  normal.distribution = Distribution::kLogNormal;
  EXPECT_NEAR(ShareBelow(Many(normal), std::exp(10.0)), 0.5, 0.03);
}

TEST(SearchSpace, ValuesStayWithinTheirBounds) {
  for (const Distribution distribution :
       {Distribution::kUniform, Distribution::kLogUniform, Distribution::kIntUniform}) {
    for (const double value : Many(Space(distribution, 3, 5))) {
      EXPECT_GE(value, 3);
      EXPECT_LE(value, 5);
    }
  }
}

TEST(SearchSpace, WeightsDecideHowOftenAValueIsDrawn) {
  SpaceParameter parameter = Choice("x", {"1", "2", "3"});
  parameter.weights = {1, 0, 3};
  const auto values = Many(parameter);
  EXPECT_NEAR(ShareBelow(values, 2), 0.25, 0.03);
  EXPECT_EQ(std::ranges::count(values, 2), 0);
}

TEST(SearchSpace, AValueDependsOnlyOnItsNameTheSeedAndItsRow) {
  const SpaceParameter lr = Space(Distribution::kLogUniform, 1e-5, 1);
  const auto few = RandomColumns({lr}, 3, 1), many = RandomColumns({Choice("a", {"1", "2"}), lr}, 10, 1);
  EXPECT_TRUE(std::equal(few[0].values.begin(), few[0].values.end(), many[1].values.begin()));
  EXPECT_NE(few[0].values, RandomColumns({lr}, 3, 2)[0].values);
  EXPECT_EQ(many[0].row_group, many[1].row_group) << "the columns advance together";
}

TEST(SearchSpace, AGridHasEveryCombination) {
  SpaceParameter steps = Space(Distribution::kQUniform, 0, 0.3);
  steps.q = 0.1;
  const auto columns = GridColumns({Choice("o", {"adam", "sgd"}), Space(Distribution::kIntUniform, 3, 5), steps}, 100);
  ASSERT_TRUE(columns) << columns.error().message;
  EXPECT_EQ((*columns)[1].values, (std::vector<std::string>{"3", "4", "5"}));
  EXPECT_EQ((*columns)[2].values, (std::vector<std::string>{"0", "0.1", "0.2", "0.3"}));
  EXPECT_EQ((*columns)[0].row_group, -1);
}

TEST(SearchSpace, AGridThatIsTooLargeNamesItsSize) {
  const auto million = GridColumns(
      {Space(Distribution::kIntUniform, 1, 1000), Choice("b", std::vector<std::string>(1000, "1"))}, 100'000);
  ASSERT_FALSE(million);
  EXPECT_TRUE(Has(million.error().message, "the grid has 1000000 points, and a sweep has at most 100000 trials"))
      << million.error().message;
  const auto endless = GridColumns({Space(Distribution::kUniform, 0, 1)}, 100);
  ASSERT_FALSE(endless);
  EXPECT_TRUE(Has(endless.error().message, "no list of values for a grid")) << endless.error().message;
  EXPECT_FALSE(GridColumns({Space(Distribution::kIntUniform, 0, 1e15)}, 100));
}

TEST(SearchSpace, WrongParametersAreRefusedInOneSentence) {
  EXPECT_TRUE(Has(ErrorOf(Space(Distribution::kUniform, 2, 1)), "min 2 is greater than max 1; swap them"));
  EXPECT_TRUE(Has(ErrorOf(Space(Distribution::kLogUniform, 0, 1)), "min 0 has no logarithm"));
  EXPECT_TRUE(Has(ErrorOf(Space(Distribution::kIntUniform, 0.5, 2)), "whole numbers"));
  EXPECT_TRUE(Has(ErrorOf(Choice("x", {})), "has no values"));
  SpaceParameter weighted = Choice("x", {"1", "2"});
  weighted.weights = {1};
  EXPECT_TRUE(Has(ErrorOf(weighted), "1 probabilities for 2 values"));
  EXPECT_TRUE(Has(DistributionFromName("beta").error().message, "unknown distribution 'beta'; known: categorical, "));
  EXPECT_EQ(DistributionFromName("log-uniform"), Distribution::kLogUniform);
}

}  // namespace search_space_test
}  // namespace divvy::sweep
