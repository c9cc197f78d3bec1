#include "dialect/options/options.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace divvy::dialect {
namespace options_test {

/// A small table that records the applied options in order: "gpus=2 hold= ".
struct Table {
  std::string said;
  std::vector<Option> options;

  Table() {
    const auto say = [this](std::string name) {
      return [this, name](std::string_view value) -> Status {
        if (value == "bad") return InvalidArgument("bad is bad");
        said += name + "=" + std::string(value) + " ";
        return {};
      };
    };
    options.push_back({"gpus", 'g', Takes::kValue, "N", "", say("gpus"), {"gres"}});
    options.push_back({"gpu-type", 0, Takes::kValue, "SPEC", "", say("gpu-type")});
    options.push_back({"output", 'o', Takes::kValue, "FILE", "", say("output")});
    options.push_back({"hold", 'H', Takes::kNothing, "", "", say("hold")});
    options.push_back({"verbose", 'v', Takes::kNothing, "", "", say("verbose")});
    options.push_back({"exclusive", 0, Takes::kOptionalValue, "HOW", "", say("exclusive")});
  }

  /// Parses the line. Returns the applied options, then "| " and the positional words, then "-- " and the words behind
  /// "--"; or the error.
  std::string Read(const std::string& line, const ParseRules& rules = {}) {
    said.clear();
    const auto parsed = ParseOptions(options, *ShellSplit(line), rules);
    if (!parsed) return "error: " + parsed.error().message;
    std::string out = said + "| " + Join(parsed->positional, " ");
    if (parsed->saw_dashes) out += " -- " + Join(parsed->after_dashes, " ");
    return out;
  }
};

TEST(Options, ReadsEveryWayToWriteAValue) {
  Table table;
  for (const std::string line : {"--gpus=2", "--gpus 2", "-g 2", "-g2", "-g=2", "--gres 2", "--gres=2"}) {
    EXPECT_EQ(table.Read(line), "gpus=2 | ") << line;
  }
  EXPECT_EQ(table.Read("--output="), "output= | ");
  EXPECT_EQ(table.Read("--output ''"), "output= | ");
  EXPECT_EQ(table.Read("--output a=b"), "output=a=b | ");
  EXPECT_EQ(table.Read("--output=--hold"), "output=--hold | ");
  EXPECT_EQ(table.Read("-g -1"), "gpus=-1 | ");
}

TEST(Options, ShortFlagsCombineAndTheLastMayTakeAValue) {
  Table table;
  EXPECT_EQ(table.Read("-Hv"), "hold= verbose= | ");
  EXPECT_EQ(table.Read("-Hvg2"), "hold= verbose= gpus=2 | ");
  EXPECT_EQ(table.Read("-vg 2 x"), "verbose= gpus=2 | x");
}

TEST(Options, AnOptionalValueNeedsAnEqualsSign) {
  Table table;
  EXPECT_EQ(table.Read("--exclusive user"), "exclusive= | user");
  EXPECT_EQ(table.Read("--exclusive=user"), "exclusive=user | ");
}

TEST(Options, AUniquePrefixIsEnough) {
  Table table;
  EXPECT_EQ(table.Read("--out x --verb"), "output=x verbose= | ");
  EXPECT_EQ(table.Read("--gpus 1"), "gpus=1 | ") << "an exact name wins over longer ones";
  EXPECT_EQ(table.Read("--gp 1"), "error: '--gp' is ambiguous; it could be --gpus, --gpu-type");
  EXPECT_EQ(table.Read("--g 1"), "error: '--g' is ambiguous; it could be --gpus, --gpu-type");
  EXPECT_EQ(table.Read("--outpt x", {.allows_abbreviations = false}),
            "error: unknown option '--outpt'; did you mean --output?");
}

TEST(Options, ArgumentsThatAreNotOptionsKeepTheirOrder) {
  Table table;
  EXPECT_EQ(table.Read("a -g 1 b - c"), "gpus=1 | a b - c");
  EXPECT_EQ(table.Read("a -- -g 1 --"), "| a -- -g 1 --");
  EXPECT_EQ(table.Read("-g 1 python -v x", {.stops_at_first_positional = true}), "gpus=1 | python -v x");
  EXPECT_EQ(table.Read("-- python -v", {.stops_at_first_positional = true}), "|  -- python -v");
}

TEST(Options, LongNamesMayHaveOneDashWhereTheToolAllowsIt) {
  Table table;
  EXPECT_EQ(table.Read("-output x", {.allows_single_dash_long = true}), "output=x | ");
  EXPECT_EQ(table.Read("-outpu x"), "output=utpu | x") << "getopt glues";
  EXPECT_EQ(table.Read("-exclusive"),
            "error: unknown option '-e' in '-exclusive'; long options begin with two dashes: '--exclusive'");
}

TEST(Options, AnErrorNamesTheOptionAsItWasWritten) {
  Table table;
  EXPECT_EQ(table.Read("--gpus bad"), "error: --gpus: bad is bad");
  EXPECT_EQ(table.Read("-gbad"), "error: -g (--gpus): bad is bad");
  EXPECT_EQ(table.Read("--gpus"), "error: --gpus needs a value: N");
  EXPECT_EQ(table.Read("--gpus --hold"), "error: --gpus needs a value: N");
  EXPECT_EQ(table.Read("--hold=1"), "error: --hold takes no value; remove it");
  EXPECT_EQ(table.Read("--gpsu 1"), "error: unknown option '--gpsu'; did you mean --gpus?");
  EXPECT_EQ(table.Read("--zebra"), "error: unknown option '--zebra'; --help lists all options");
  EXPECT_EQ(table.Read("--gpus 1 --help"),
            "error: unknown option '--help'; it is accepted only as the first word of a command line")
      << "it is not a misspelt --hold";
}

}  // namespace options_test
}  // namespace divvy::dialect
