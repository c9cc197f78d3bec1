#include "engine/feature_expression.h"

#include <gtest/gtest.h>

#include <functional>

namespace divvy {
namespace feature_expression_test {

FeatureCondition Condition(std::string_view text) {
  const auto term = ParseFeatures(text);
  EXPECT_TRUE(term) << text;
  return FeatureCondition::Of(*term).value();
}

std::string Refusal(std::string_view text) {
  const auto wish = ParseFeatureWish(text);
  return wish ? "accepted" : wish.error().message;
}

TEST(FeatureExpression, IsEvaluatedStrictlyFromLeftToRight) {
  EXPECT_EQ(Condition("a|b&c").Text(), "a&c or b&c");
  EXPECT_EQ(Condition("a|(b&c)").Text(), "a or b&c");
  EXPECT_EQ(Condition("a&b|c").Text(), "a&b or c");
  EXPECT_EQ(Condition("a&(b|c)").Text(), "a&b or a&c");
  EXPECT_EQ(Condition("a,b").Text(), "a&b");
  EXPECT_EQ(Condition(" a & b ").Text(), "a&b");
}

TEST(FeatureExpression, EquivalentExpressionsAreEqual) {
  EXPECT_EQ(Condition("b&a"), Condition("a&b&a"));
  EXPECT_EQ(Condition("b|a"), Condition("(a)|b|(a&b)"));
  EXPECT_NE(Condition("a"), Condition("A")) << "features are named exactly";
}

TEST(FeatureExpression, ErrorsNameThePlace) {
  EXPECT_EQ(Refusal("a&"), "a feature is missing at the end");
  EXPECT_EQ(Refusal("a&|b"), "a feature is missing before '|' at character 3");
  EXPECT_EQ(Refusal("a)"), "')' at character 2 closes nothing");
  EXPECT_EQ(Refusal("x&(a|b]"), "the bracket at character 3 is not closed; add ')'");
  EXPECT_EQ(Refusal("a b"), "'b' at character 3 between features; join them with '&' or '|'");
  EXPECT_EQ(Refusal("a*"), "a number is missing behind '*' at character 2");
  EXPECT_EQ(Refusal("a*0"), "the count at character 3 is below 1");
  EXPECT_EQ(Refusal("a*9999999"), "the count at character 3 is above 1000000");
  EXPECT_EQ(Refusal(std::string(20, '(') + "a"), "brackets are nested too deeply at character 17");
}

TEST(FeatureExpression, HasASizeLimit) {
  std::string wide = "(a1|b1)";
  for (int i = 2; i < 12; ++i) wide += "&(a" + std::to_string(i) + "|b" + std::to_string(i) + ")";
  EXPECT_EQ(Refusal(wide), "more than 256 combinations of features at character 65; ask for fewer alternatives");
  std::string deep = "a";
  for (int i = 0; i < 50'000; ++i) deep += i % 2 == 0 ? "&b" : "|b";
  EXPECT_EQ(Refusal(deep), "more than 1000 features; ask for fewer");
}

TEST(FeatureWish, BracketsOfAlternativesRequestEqualNodes) {
  const FeatureWish wish = ParseFeatureWish("ib&[rack1|rack2|(a&b)]").value();
  EXPECT_EQ(wish.all.Text(), "ib");
  ASSERT_EQ(wish.alike.size(), 3u);
  EXPECT_EQ(wish.alike[2].Text(), "a&b");
  EXPECT_TRUE(wish.counted.empty());
}

TEST(FeatureWish, CountsRequestGroupsOfNodes) {
  for (const std::string_view text : {"[a*2&b*4]&x", "a*2&b*4&x", "x&(a)*2&b*4"}) {
    const FeatureWish wish = ParseFeatureWish(text).value();
    EXPECT_EQ(wish.all.Text(), "x") << text;
    ASSERT_EQ(wish.counted.size(), 2u) << text;
    EXPECT_EQ(wish.counted[0], (FeatureWish::Counted{FeatureCondition("a"), 2})) << text;
    EXPECT_EQ(wish.counted[1], (FeatureWish::Counted{FeatureCondition("b"), 4})) << text;
    EXPECT_EQ(wish.counted_nodes(), 6);
  }
  EXPECT_EQ(ParseFeatureWish("[(rack1|rack2)*1&(rack3)*2]")->counted.front().condition.Text(), "rack1 or rack2");
  EXPECT_TRUE(ParseFeatureWish("")->all.is_any());
}

TEST(FeatureWish, RefusesExpressionsWithoutAMeaning) {
  const std::string special = " is one alternative of several or inside brackets; put it outside, joined by '&'";
  EXPECT_EQ(Refusal("a*2|b"), "the count of what stands at character 1" + special);
  EXPECT_EQ(Refusal("c&(a*2&b)"), "the count of what stands at character 4" + special);
  EXPECT_EQ(Refusal("x|[a|b]"), "the '[' at character 3" + special);
  EXPECT_EQ(Refusal("[a&b]"),
            "the part at character 2 has no count; inside '[' each part of an '&' has one, as in "
            "[a*2&b*4]");
  EXPECT_EQ(Refusal("[a|b]&[c|d]"), "a second '[' at character 7; a job has one at most");
  EXPECT_EQ(Refusal("[a|b]*4"),
            "the '[' at character 1 is counted as a whole; write the counts inside it, as in "
            "[a*2&b*4]");
}

// Evaluates the syntax tree directly, without conversion to options.
bool Holds(const FeatureTerm& term, const std::vector<std::string>& features) {
  if (term.kind == FeatureTerm::Kind::kFeature) {
    return std::find(features.begin(), features.end(), term.feature) != features.end();
  }
  const auto holds = [&](const FeatureTerm& part) { return Holds(part, features); };
  return term.kind == FeatureTerm::Kind::kAnd ? std::all_of(term.parts.begin(), term.parts.end(), holds)
                                              : std::any_of(term.parts.begin(), term.parts.end(), holds);
}

TEST(FeatureCondition, IsTrueExactlyWhereTheExpressionIs) {
  std::uint64_t state = 7;
  const auto below = [&](int n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state >> 33) % static_cast<std::uint64_t>(n));
  };
  const std::function<std::string(int)> write = [&](int depth) {
    std::string text;
    for (int parts = 1 + below(3), i = 0; i < parts; ++i) {
      if (i > 0) text += below(2) == 0 ? "&" : "|";
      text +=
          depth > 0 && below(3) == 0 ? "(" + write(depth - 1) + ")" : std::string(1, static_cast<char>('a' + below(5)));
    }
    return text;
  };
  for (int round = 0; round < 300; ++round) {
    const std::string text = write(3);
    const FeatureTerm term = ParseFeatures(text).value();
    const auto condition = FeatureCondition::Of(term);
    if (!condition) continue;
    for (int mask = 0; mask < 32; ++mask) {
      std::vector<std::string> features;
      for (int i = 0; i < 5; ++i) {
        if (((mask >> i) & 1) != 0) features.emplace_back(1, static_cast<char>('a' + i));
      }
      ASSERT_EQ(condition->Holds(features), Holds(term, features)) << text << " on " << mask;
    }
  }
}

}  // namespace feature_expression_test
}  // namespace divvy
