#include "wire/http/own_numbers.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace divvy::wire {
namespace own_numbers_test {

std::string Shown(std::string_view line) {
  std::string text;
  for (const auto& [name, number] : NumbersOfLine(line)) {
    char value[32];
    std::snprintf(value, sizeof value, "%g", number);
    text += (text.empty() ? "" : " ") + name + "=" + value;
  }
  return text;
}

TEST(OwnNumbers, AreReadFromAJsonObject) {
  EXPECT_EQ(Shown(R"({"step": 10, "loss": 0.3, "note": "x", "more": {"a": 1}, "list": [1]})"), "step=10 loss=0.3");
  EXPECT_EQ(Shown(R"(  {"a": -1e3}  )"), "a=-1000");
  EXPECT_EQ(Shown("{\"a\": 1}\r"), "a=1") << "as a terminal has it";
  for (const char* line : {"", "loss 0.3", "{", "[1]", "{\"a\": }", "{\"a\": 1} tail", "{\"\": 1}",
                           "{\"a\\u0000b\": 1}", "{\"x\": 1e999}"})
    EXPECT_EQ(Shown(line), "") << line;
  EXPECT_EQ(Shown(R"({"a": 1, "a": 2})"), "a=2");
}

TEST(OwnNumbers, ValuesThatAreNotNumbersAreSkipped) {
  EXPECT_EQ(Shown(R"({"step": 20, "loss": NaN, "acc": 0.5})"), "step=20 acc=0.5");
  EXPECT_EQ(Shown(R"({"a": Infinity, "b": -Infinity, "c": 1, "d": [NaN, 1]})"), "c=1");
  EXPECT_EQ(Shown(R"({"NaN": 1, "a\"NaN": 2, "note": "is Infinity", "x": NaN})"), "NaN=1 a\"NaN=2");
  EXPECT_EQ(Shown(R"({"a": 1e400, "b": -11E+999, "c": 2, "d": "1e400", "e": 0.00001e312})"), "c=2");
  EXPECT_EQ(Shown(R"({"a": 1e39, "b": -3.4e38, "c": -1e300, "d": 1e-50})"), "b=-3.4e+38 d=1e-50") << "as floats go";
  for (const char* line : {R"({"a": NaN1, "b": 1})", R"({"a": nan, "b": 1})", R"({NaN: 1})", R"({"a": NaN)"})
    EXPECT_EQ(Shown(line), "") << line;
}

TEST(OwnNumbers, EndlesslyManyNamesAreLimited) {
  std::string line = "{";
  for (int i = 0; i < 500; ++i) line += (i == 0 ? "\"n" : ",\"n") + std::to_string(i) + "\":1";
  EXPECT_EQ(NumbersOfLine(line + "}").size(), kMostOwnNames);
  EXPECT_TRUE(NumbersOfLine("{\"" + std::string(100, 'x') + "\": 1}").empty());
}

}  // namespace own_numbers_test
}  // namespace divvy::wire
