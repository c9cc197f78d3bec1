#include "cli/top/top_question.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace top_question_test {

using State = TopQuestion::State;

TopEvent Key(TopKey key) { return {key, 0, 0}; }
TopEvent Typed(char32_t character) { return {TopKey::kCharacter, character, 0}; }

std::string TextOf(const TopLine& line) {
  std::string text;
  for (const Cell& span : line.spans) text += span.text;
  return text;
}

TEST(TopQuestion, YesOrNoIsOneKey) {
  TopQuestion asked = TopQuestion::YesOrNo("Cancel 577 (", "hh", ")?");
  EXPECT_EQ(TextOf(asked.Shown(80, false)), "Cancel 577 (hh)?  y yes  n no");
  for (const char32_t other : {U'h', U'z', U'q', U' '}) EXPECT_EQ(asked.On(Typed(other)), State::kOpen);
  for (const TopKey other : {TopKey::kUp, TopKey::kEnter, TopKey::kClick, TopKey::kBackspace, TopKey::kResize})
    EXPECT_EQ(asked.On(Key(other)), State::kOpen);
  EXPECT_EQ(TextOf(asked.Shown(80, false)), "Cancel 577 (hh)?  y yes  n no") << "nothing is typed";
  EXPECT_EQ(asked.On(Typed('y')), State::kAnswered);
  EXPECT_EQ(asked.On(Typed('Y')), State::kAnswered);
  EXPECT_EQ(asked.On(Typed('n')), State::kGivenUp);
  EXPECT_EQ(asked.On(Key(TopKey::kEscape)), State::kGivenUp);
}

TEST(TopQuestion, ShowsItsKeysHoweverLongTheNameIs) {
  const TopQuestion asked = TopQuestion::YesOrNo("Cancel 577 (", std::string(300, 'x'), ")?");
  EXPECT_EQ(TextOf(asked.Shown(40, false)), "Cancel 577 (xxxxxxxxxxxx…)?  y yes  n no");
  EXPECT_EQ(asked.Cursor(40), 39u);
}

TEST(TopQuestion, TextIsReadUntilEnter) {
  TopQuestion asked = TopQuestion::Line("Show jobs with: ", "Enter shows them, Escape leaves it");
  EXPECT_EQ(TextOf(asked.Shown(80, false)), "Show jobs with:    Enter shows them, Escape leaves it");
  EXPECT_EQ(asked.Cursor(80), 16u);
  for (const char32_t letter : {U'q', U'日', U'x'}) EXPECT_EQ(asked.On(Typed(letter)), State::kOpen);
  EXPECT_EQ(asked.typed(), "q日x");
  EXPECT_EQ(asked.Cursor(80), 20u);
  asked.On(Key(TopKey::kBackspace));
  asked.On(Key(TopKey::kBackspace));
  EXPECT_EQ(asked.typed(), "q") << "a letter goes whole";
  EXPECT_EQ(asked.On(Key(TopKey::kResize)), State::kOpen);
  EXPECT_EQ(asked.On(Key(TopKey::kEnter)), State::kAnswered);
  EXPECT_EQ(asked.On(Key(TopKey::kEscape)), State::kGivenUp);
}

TEST(TopQuestion, ShowsTheEndOfALongAnswer) {
  TopQuestion asked = TopQuestion::Line("Find: ", "Enter shows them");
  for (char32_t letter = U'a'; letter <= U'z'; ++letter) asked.On(Typed(letter));
  EXPECT_EQ(TextOf(asked.Shown(20, false)), "Find: nopqrstuvwxyz");
  EXPECT_EQ(asked.Cursor(20), 19u);
}

}  // namespace top_question_test
}  // namespace divvy::cli
