#include "cli/jobs/carried_metrics.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace carried_metrics_test {

using Lines = std::deque<std::string>;

TEST(ObjectLines, AreReadCompletelyHoweverTheyAreSplit) {
  ObjectLines lines;
  lines.Read("words {\n{\"a\"");
  EXPECT_EQ(lines.Take(), Lines());
  lines.Read(": 1}\n");
  EXPECT_EQ(lines.Take(), (Lines{"{\"a\": 1}"}));
  lines.Read("{\"a\": 2}\r\n x {\"a\": 3}\n\n{\"a\": 4}");
  EXPECT_EQ(lines.Take(), (Lines{"{\"a\": 2}\r"}));
  lines.Read("\n");
  EXPECT_EQ(lines.Take(), (Lines{"{\"a\": 4}"}));
}

TEST(ObjectLines, MayBeginWithBlanksAndEndWithTheStream) {
  ObjectLines lines;
  lines.Read(" ");
  lines.Read("\t {\"a\": 1}\n  x\n \n{\"a\": 2}");
  lines.End();
  lines.End();
  EXPECT_EQ(lines.Take(), (Lines{"{\"a\": 1}", "{\"a\": 2}"}));
}

TEST(CarriedMetrics, ForwardALastLineWithoutANewline) {
  std::vector<wire::OwnNumbers> told;
  {
    CarriedMetrics carried([&](const CarriedMetrics::Said& said) { told.push_back(said.numbers); });
    carried.Begin();
    carried.Read("{\"loss\": 3}");
  }
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].front(), (std::pair<std::string, double>("loss", 3)));
}

TEST(ObjectLines, HaveALengthLimit) {
  ObjectLines lines;
  for (int i = 0; i < 500; ++i) lines.Read("{\"a\": " + std::to_string(i) + "}\n");
  EXPECT_EQ(lines.left_out(), 450);
  const Lines taken = lines.Take();
  EXPECT_EQ(lines.left_out(), 0);
  EXPECT_EQ(taken.size(), wire::kMostOwnLines);
  EXPECT_EQ(taken.back(), "{\"a\": 499}");
  lines.Read("{");
  for (int i = 0; i < 100; ++i) lines.Read(std::string(1024, 'x'));
  lines.Read("}\n{}\n");
  EXPECT_EQ(lines.Take(), (Lines{"{}"})) << "a line without an end is none";
}

TEST(CarriedMetrics, ForwardTheNewestAndTheLastValues) {
  std::vector<wire::OwnNumbers> told;
  CarriedMetrics carried([&](const CarriedMetrics::Said& said) { told.push_back(said.numbers); });
  carried.Read("{\"loss\": 3}\n{\"loss\": 2, \"step\": 1}\n");
  carried.Begin();
  carried.Read("{\"loss\": 1}\n");
  carried.Finish();
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back().front(), (std::pair<std::string, double>("loss", 1)));
  const std::size_t count = told.size();
  carried.Read("{\"loss\": 0}\n");
  carried.Finish();
  EXPECT_EQ(told.size(), count);
}

TEST(CarriedMetrics, CountTheLinesThatTheyLeaveOut) {
  std::vector<CarriedMetrics::Said> told;
  CarriedMetrics carried([&](const CarriedMetrics::Said& said) { told.push_back(said); });
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += "{\"a" + std::to_string(i) + "\": 1, \"b" + std::to_string(i) + "\": 1}\n";
  carried.Read(lines);
  carried.Begin();
  carried.Finish();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].lines_left_out, 10);
  EXPECT_EQ(told[0].numbers.size(), wire::kMostOwnNames);
  EXPECT_EQ(told[0].names_left_out, 36);
}

TEST(CarriedMetrics, TextWithoutNumbersForwardsNothing) {
  int told = 0;
  CarriedMetrics carried([&](const CarriedMetrics::Said&) { ++told; });
  carried.Begin();
  carried.Read("epoch 1\nloss 0.3\n");
  carried.Finish();
  EXPECT_EQ(told, 0);
}

TEST(CarriedMetrics, CountLinesLeftOutBeforeLinesWithoutNumbers) {
  std::vector<CarriedMetrics::Said> told;
  CarriedMetrics carried([&](const CarriedMetrics::Said& said) { told.push_back(said); });
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += "{}\n";
  carried.Begin();
  carried.Read(lines);
  carried.Read("{\"loss\": 3}\n");
  carried.Finish();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_GE(told[0].lines_left_out, 10) << "one more where the last came before the others were taken";
}

}  // namespace carried_metrics_test
}  // namespace divvy::cli
