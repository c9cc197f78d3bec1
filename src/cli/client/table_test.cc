#include "cli/client/table.h"

#include <gtest/gtest.h>

#include "cli/client/shown_answer.h"

#include "cli/client/answer_options.h"

namespace divvy::cli {
namespace table_test {

const std::vector<Column> kColumns = {{"NAME"},
                                      {"MODEL", false, true, true},
                                      {"CPUS", true, true, false, true},
                                      {"ADDRESS", false, true, true, true},
                                      {"REASON", false, true, true}};

Fit FitOf(std::size_t terminal, bool are_named = false) {
  Fit fit{{0, 1, 2, 3, 4}, {4, 20, 4, 14, 30}};
  FitInto(terminal, kColumns, are_named, fit);
  return fit;
}

TEST(Table, ShowsAllColumnsWhereThereIsRoom) {
  EXPECT_EQ(FitOf(80).columns, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(FitOf(80).widths, (std::vector<std::size_t>{4, 20, 4, 14, 30}));
}

TEST(Table, CutsTheWidestColumnFirst) { EXPECT_EQ(FitOf(74).widths, (std::vector<std::size_t>{4, 20, 4, 14, 24})); }

TEST(Table, DropsOptionalColumnsBeforeOthersBecomeUnreadable) {
  EXPECT_EQ(FitOf(60).columns, (std::vector<std::size_t>{0, 1, 2, 4}));
  EXPECT_EQ(FitOf(60).widths, (std::vector<std::size_t>{4, 20, 4, 26}));
  EXPECT_EQ(FitOf(44).columns, (std::vector<std::size_t>{0, 1, 4}));
  EXPECT_EQ(FitOf(44).widths, (std::vector<std::size_t>{4, 18, 18}));
}

TEST(Table, DropsItsLastColumnsIfTheyCannotBeCutFurther) {
  const std::vector<Column> columns = {
      {"USER"}, {"JOBS", true}, {"GPU-HOURS", true}, {"SHARE", true}, {"NOTE", false, true, true}};
  const auto fit_of = [&](std::size_t terminal, bool are_named) {
    Fit fit{{0, 1, 2, 3, 4}, {8, 4, 9, 5, 30}};
    FitInto(terminal, columns, are_named, fit);
    return fit.columns;
  };
  EXPECT_EQ(fit_of(42, false).size(), 5u);
  EXPECT_EQ(fit_of(41, false), (std::vector<std::size_t>{0, 1, 2, 4}));
  EXPECT_EQ(fit_of(30, false), (std::vector<std::size_t>{0, 1, 4}));
  EXPECT_EQ(fit_of(12, false), (std::vector<std::size_t>{0, 4})) << "the first stays";
  EXPECT_EQ(fit_of(30, true).size(), 5u) << "-o names them";
}

TEST(Table, RefusesTwoOutputFormats) {
  EXPECT_TRUE(OneForm({{"--json", true}, {"--csv", false}, {"--html", false}}));
  EXPECT_EQ(OneForm({{"--json", true}, {"--csv", false}, {"--html", true}}).error().message,
            "--json and --html cannot be combined; give only one format");
}

TEST(Table, RefusesColumnsForJson) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--json", "-o", "id"}, std::vector<std::string>{"-o", "id,name", "--json"}}) {
    ListingOptions options;
    const auto parsed = dialect::ParseOptions(ListingOptionTable(options), words);
    ASSERT_FALSE(parsed);
    EXPECT_NE(parsed.error().message.find("JSON always has every field; omit one of them"), std::string::npos);
  }
  ListingOptions options;
  EXPECT_TRUE(dialect::ParseOptions(ListingOptionTable(options), std::vector<std::string>{"--csv", "-o", "id"}));
}

TEST(Table, CommandsWithoutATableTakeNoColumnOptions) {
  ListingOptions options;
  EXPECT_TRUE(dialect::ParseOptions(AnswerOptionTable(options), std::vector<std::string>{"--json", "-w"}));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"-o", "id"}, std::vector<std::string>{"--csv"}})
    EXPECT_FALSE(dialect::ParseOptions(AnswerOptionTable(options), words));
}

TEST(Table, ShowsAllColumnsThatAreNamed) {
  EXPECT_EQ(FitOf(60, true).columns.size(), 5u);
  EXPECT_EQ(FitOf(10, true).widths, (std::vector<std::size_t>{4, 8, 4, 8, 8})) << "no further";
}

TEST(Table, ShowsACutValueBelowItsRow) {
  std::vector<Column> columns = kColumns;
  columns[4].goes_on_below = true;
  std::vector<Cell> row(5);
  row[4].text = "fan, by root; deadline in 2 h";
  EXPECT_EQ(TextBelow(columns, FitOf(80), row, 80), "") << "there is room";
  EXPECT_EQ(TextBelow(columns, FitOf(60), row, 24), "    fan, by root;\n    deadline in 2 h\n");
  columns[1].goes_on_below = true;
  row[1].text = "NVIDIA A100-SXM4-40GB, of two kinds";
  EXPECT_EQ(TextBelow(columns, FitOf(60), row, 90),
            "    model: NVIDIA A100-SXM4-40GB, of two kinds; reason: fan, by root; deadline in 2 h\n");
}

TEST(Table, CsvHasItsOwnTitles) {
  const std::vector<Column> columns = {{"NAME"}, {"MEMORY", true, true, false, false, false, "memory_bytes"}};
  ListingOptions options;
  options.csv = true;
  EXPECT_EQ(*RenderTable(columns, {{{"a"}, {"7"}}}, options), "name,memory_bytes\na,7\n");
  options.columns = {"memory"};
  EXPECT_EQ(*RenderTable(columns, {{{"a"}, {"7"}}}, options), "memory_bytes\n7\n");
  options.columns = {"memory_bytes", "Name"};
  EXPECT_EQ(*RenderTable(columns, {{{"a"}, {"7"}}}, options), "memory_bytes,name\n7,a\n");
}

TEST(Folded, WrapsLinesBehindTheirLabels) {
  EXPECT_EQ(Folded("one two three four five six seven\nshort\n", 24), "one two three four five\nsix seven\nshort\n");
  EXPECT_EQ(Folded("asks for  2 machines with 1 GPU each, 2 tasks\n", 30),
            "asks for  2 machines with 1\n          GPU each, 2 tasks\n");
  EXPECT_EQ(Folded("  indented text that is rather long here\n", 24), "  indented text that is\n  rather long here\n");
  EXPECT_EQ(Folded("a averyveryveryveryverylongword b", 22), "a\naveryveryveryveryverylongword\nb\n");
  EXPECT_EQ(Folded("one two three four five six seven", 0), "one two three four five six seven");
}

TEST(Folded, DoesNotWrapTextThatIsMeantToBeCopied) {
  const std::string line = "command       python3 train.py --epochs 10 --rate 0.1\n";
  EXPECT_EQ(Folded(line, 36), line);
}

TEST(ShownAnswer, ControlCharactersOfAnswersAreEscaped) {
  EXPECT_EQ(WithoutControlsInJson(R"({"a": "x\u001b]52;c;aGk=\u0007y\r\b"})"),
            R"({"a": "x\\x1b]52;c;aGk=\\x07y\\x0d\\x08"})");
  EXPECT_EQ(WithoutControlsInJson("\"\xc2\x9b"
                                  "2J\x7f\xe2\x80\xae\""),
            R"("\\x9b2J\\x7f\\u202e")");
  EXPECT_EQ(WithoutControlsInJson("\"\\u202e\\u009B\""), R"("\\u202e\\x9b")");
}

TEST(ShownAnswer, OtherTextIsUnchanged) {
  for (const std::string_view json :
       {R"({"script": "#!/bin/sh\n\techo \"\\u001b\" \u00fc\/"})", "[1,\n\t2]", "\"\\", "\"\\u00\"", ""})
    EXPECT_EQ(WithoutControlsInJson(json), json);
}

TEST(ShownAnswer, AMessageIsDecodedWithEscapedControlCharacters) {
  const auto view = DecodeShown<wire::JobView>("{\"name\": \"evil\\u001b[2J\", \"state\": \"queued\"}");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->name, "evil\\x1b[2J");
}

}  // namespace table_test
}  // namespace divvy::cli
