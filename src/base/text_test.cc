#include "base/text.h"

#include <gtest/gtest.h>

#include "base/index_ranges.h"

namespace divvy {
namespace text_test {

TEST(Text, NearestFindsASmallTypingErrorOnly) {
  const std::string_view keys[] = {"policy", "escalate_after", "grace"};
  EXPECT_EQ(Nearest("polcy", keys), "policy");
  EXPECT_EQ(Nearest("escalateafter", keys), "escalate_after");
  EXPECT_EQ(Nearest("zebra", keys), "");
  const std::string_view options[] = {"account", "gpus"};
  EXPECT_EQ(Nearest("gpu-count", options), "") << "another first letter, and four more";
  const std::string_view commands[] = {"gjob", "pool", "gpus"};
  EXPECT_EQ(Nearest("frob", commands), "") << "two of four letters, the first among them";
  EXPECT_EQ(Nearest("foo", commands), "");
  EXPECT_EQ(Nearest("gups", commands), "gpus");
  const std::string_view signals[] = {"TERM", "FPE", "INT"};
  EXPECT_EQ(Nearest("foo", signals), "") << "one of three letters";
  EXPECT_EQ(Nearest("itn", signals), "INT") << "the same letters";
  EXPECT_EQ(Nearest("inf", signals), "INT");
}

TEST(Text, OneLineHasNoControlCharacters) {
  EXPECT_EQ(OneLine("a\nb\t\x7f\x1b[1m é"), "a b   [1m é");
  EXPECT_EQ(OneLine(""), "");
}

TEST(Text, ShellWordsAreReadAsTheyAreWritten) {
  for (const std::string word : {"plain", "two words", "it's", "", "a\"b", "$HOME", "tab\there"}) {
    const auto words = ShellSplit(ShellQuote(word) + " next");
    ASSERT_TRUE(words);
    ASSERT_EQ(words->size(), 2u);
    EXPECT_EQ(words->front(), word);
  }
  EXPECT_FALSE(ShellSplit("open 'quote"));
}

TEST(IndexRanges, AdjacentRangesMergeAndErasingAMemberSplitsARange) {
  IndexRanges set(0, 4);
  set.Insert(6, 9);
  set.Insert(5);
  EXPECT_EQ(set.ToString(), "0-9");
  set.Erase(3);
  EXPECT_EQ(set.ToString(), "0-2,4-9");
  EXPECT_EQ(set.size(), 9u);
  EXPECT_EQ(set.Nth(3), 4u);
  EXPECT_FALSE(set.Contains(3));
}

TEST(IndexRanges, PrintedRangesAreReadBack) {
  for (const std::string text : {"0-99", "1,3,7", "0-4,8,10-11"}) {
    EXPECT_EQ(IndexRanges::Parse(text, "--array")->ToString(), text);
  }
  EXPECT_EQ(IndexRanges::Parse("0-15:4", "--array")->ToString(), "0,4,8,12");
}

TEST(IndexRanges, EveryMalformedTextIsOneErrorThatNamesThePlace) {
  for (const std::string text : {"", "a", "5-1", "-1", "0-9:0", "0-9:x", "1,,2", "0-99999999", "1-", "0-4000000:2"}) {
    const auto result = IndexRanges::Parse(text, "--array");
    ASSERT_FALSE(result) << text;
    EXPECT_NE(result.error().message.find("--array"), std::string::npos);
  }
}

}  // namespace text_test
}  // namespace divvy
