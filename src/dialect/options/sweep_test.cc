#include <gtest/gtest.h>

#include "base/text.h"
#include "dialect/options/job_options.h"

namespace divvy::dialect {
namespace sweep_test {

std::string Values(const std::string& text) {
  JobSpec spec;
  const Status read = ParseParameter(text, spec);
  if (!read) return "error: " + read.error().message;
  return Join(spec.parameters.back().values, " ");
}

TEST(Parameters, ReadsListsAndRanges) {
  EXPECT_EQ(Values("lr=1e-3,1e-4"), "1e-3 1e-4");
  EXPECT_EQ(Values("lr=1e-3"), "1e-3");
  EXPECT_EQ(Values("seed=0:4"), "0 1 2 3 4");
  EXPECT_EQ(Values("seed=0:10:5"), "0 5 10");
  EXPECT_EQ(Values("seed=0:9:4"), "0 4 8");
  EXPECT_EQ(Values("seed=3:0:-1"), "3 2 1 0");
  EXPECT_EQ(Values("seed=5:5"), "5");
  EXPECT_EQ(Values("x=0:1:0.25"), "0.00 0.25 0.50 0.75 1.00");
  EXPECT_EQ(Values("x=0:0.3:0.1"), "0.0 0.1 0.2 0.3") << "no value is lost to rounding";
  EXPECT_EQ(Values("x=-0.2:0.2:0.2"), "-0.2 0.0 0.2");
  EXPECT_EQ(Values("model=a b, c"), "a b c");
  EXPECT_EQ(Values("url=s3://bucket:80/x"), "s3://bucket:80/x") << "a colon between words is no range";
  EXPECT_EQ(Values("shape=3:4,4:5"), "3:4 4:5") << "in a list a colon is a character";
  EXPECT_EQ(Values("x=1e-3:1e-1"), "1e-3:1e-1");
  EXPECT_EQ(Values("opt=a=b"), "a=b");
}

TEST(Parameters, TheArrayChangesFasterThanTheLastParameter) {
  JobSpec spec;
  ASSERT_TRUE(ParseParameter("a=x,y", spec));
  ASSERT_TRUE(ParseParameter("b=1:2", spec));
  spec.array = ArraySpec{*IndexRanges::Parse("5,7", ""), 0};
  ASSERT_EQ(ElementCount(spec).value(), 8u);
  std::string all;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Element element = ElementAt(spec, i);
    all += element.parameters.at("a") + element.parameters.at("b") + "-" + std::to_string(element.index) + " ";
  }
  EXPECT_EQ(all, "x1-5 x1-7 x2-5 x2-7 y1-5 y1-7 y2-5 y2-7 ");
}

TEST(Parameters, ColumnsOfAFileAdvanceTogether) {
  JobSpec spec;
  ASSERT_TRUE(ParseParameter("a=x,y", spec));
  ASSERT_TRUE(
      ParseParameterFile("\xEF\xBB\xBFlr,note\r\n1e-3,\"one, \"\"two\"\"\"\r\n\r\n1e-4,\r\n", "grid.csv", spec));
  ASSERT_EQ(ElementCount(spec).value(), 4u);
  EXPECT_EQ(ElementAt(spec, 2).index, 2u);
  EXPECT_EQ(ElementAt(spec, 2).parameters,
            (std::map<std::string, std::string>{{"a", "y"}, {"lr", "1e-3"}, {"note", "one, \"two\""}}));
  EXPECT_EQ(ElementAt(spec, 1).parameters,
            (std::map<std::string, std::string>{{"a", "x"}, {"lr", "1e-4"}, {"note", ""}}));
  ASSERT_TRUE(ParseParameterFile("p\n1\n2\n3\n", "other.csv", spec));
  EXPECT_EQ(ElementCount(spec).value(), 12u) << "a second file is a dimension of its own";
}

TEST(Parameters, WithoutArrayOrParametersThereIsOneJob) { EXPECT_EQ(ElementCount(JobSpec()).value(), 0u); }

TEST(Parameters, ATemplateNamesTheElements) {
  JobSpec spec;
  ASSERT_TRUE(ParseParameter("lr=1e-3,1e-4", spec));
  ASSERT_TRUE(ParseParameter("seed=0:1", spec));
  EXPECT_EQ(ElementName(spec, 0), std::nullopt);
  spec.name_template = "train-{lr}-{seed}";
  EXPECT_EQ(ElementName(spec, 0), "train-1e-3-0");
  EXPECT_EQ(ElementName(spec, 3), "train-1e-4-1");
  spec.name_template = std::string(251, 'a') + "{lr}-{seed}";
  EXPECT_EQ(ElementName(spec, 0), std::nullopt) << "longer than names are";
}

TEST(Parameters, OnlyNamesInBracesAreReplaced) {
  const std::map<std::string, std::string> values = {{"lr", "1e-3"}, {"a", "{lr}"}};
  EXPECT_EQ(FillParameters("--lr={lr} {seed} {} {lr", values), "--lr=1e-3 {seed} {} {lr");
  EXPECT_EQ(FillParameters("{{lr}}", values), "{1e-3}");
  EXPECT_EQ(FillParameters("{a}", values), "{lr}") << "values are not filled again";
  EXPECT_EQ(FillParameters("${lr}", values), "${lr}") << "a variable of the shell";
  EXPECT_EQ(FillParameters("", values), "");
}

}  // namespace sweep_test
}  // namespace divvy::dialect
