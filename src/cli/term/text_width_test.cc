#include "cli/term/text_width.h"

#include <gtest/gtest.h>

#include "cli/client/words.h"
#include "cli/shims/slurm_look/slurm_table.h"

namespace divvy::cli {
namespace text_width_test {

TEST(TextWidth, CountsColumnsNotCharacters) {
  EXPECT_EQ(Width("train"), 5u);
  EXPECT_EQ(Width("naïve…▁█"), 8u);
  EXPECT_EQ(Width("学習"), 4u);
  EXPECT_EQ(Width("한국"), 4u);
  EXPECT_EQ(Width("ＡＢ"), 4u) << "wide letters";
  EXPECT_EQ(Width("ﾃｽﾄ"), 3u) << "narrow kana";
  EXPECT_EQ(Width("🚀x"), 3u);
  EXPECT_EQ(Width("e\u0301"), 1u) << "an accent of its own";
  EXPECT_EQ(Width("👩\u200d🚀"), 4u) << "as the C library counts joined ones";
  EXPECT_EQ(Width("\u2764\ufe0f"), 1u);
  EXPECT_EQ(Width("a\xff"
                  "b"),
            3u)
      << "a byte that is none";
}

TEST(TextWidth, CutsBeforeAWideCharacterThatDoesNotFit) {
  EXPECT_EQ(Cut("学習する", 5, false), "学習…");
  EXPECT_EQ(Cut("学習する", 4, false), "学…") << "three columns: half a character has no place";
  EXPECT_EQ(Cut("学習する", 1, false), "…");
  EXPECT_EQ(Cut("e\u0301e\u0301e\u0301", 3, true), "e\u0301e\u0301>");
  EXPECT_EQ(Beginning("学習", 3), "学");
}

TEST(TextWidth, PadsToTheExactWidth) {
  EXPECT_EQ(Fitted("学習する", 4, false, false), "学… ");
  EXPECT_EQ(Fitted("学習する", 4, true, false), " 学…");
  EXPECT_EQ(Fitted("ab", 4), "ab  ");
  EXPECT_EQ(Fitted("ab", 0), "");
  for (std::size_t width = 1; width < 12; ++width) EXPECT_EQ(Width(Fitted("a学b習c🚀e\u0301", width)), width);
}

TEST(TextWidth, OtherTablesUseTheSameWidths) {
  EXPECT_EQ(slurm::TableCell("学習する", 6), " 学習+");
  EXPECT_EQ(slurm::TableCell("学習", -6), "学習  ");
  EXPECT_EQ(WrapText("学習 する", "", 8), "学習\nする\n");
}

}  // namespace text_width_test
}  // namespace divvy::cli
