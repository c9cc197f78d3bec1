#include "cli/top/top_question.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kLongestAnswer = 200;  // Bytes.
constexpr std::string_view kYesOrNo = "  y yes  n no";

/// Returns the end of the typed text, as long as fits next to the question and the cursor.
std::string End(const std::string& question, const std::string& typed, std::size_t columns) {
  std::string_view end = typed;
  while (!end.empty() && Width(question) + Width(end) + 1 > columns) end.remove_prefix(FirstCharacter(end).length);
  return std::string(end);
}

}  // namespace

TopQuestion TopQuestion::Line(std::string question, std::string hint) {
  TopQuestion asked;
  asked.question_ = std::move(question);
  asked.hint_ = std::move(hint);
  return asked;
}

TopQuestion TopQuestion::YesOrNo(std::string before, std::string name, std::string after) {
  TopQuestion asked;
  asked.question_ = std::move(before);
  asked.name_ = std::move(name);
  asked.after_ = std::move(after);
  asked.is_yes_or_no_ = true;
  return asked;
}

TopQuestion::State TopQuestion::On(const TopEvent& event) {
  if (event.key == TopKey::kEscape) return State::kGivenUp;
  if (is_yes_or_no_) {
    if (event.key != TopKey::kCharacter) return State::kOpen;
    if (event.character == 'y' || event.character == 'Y') return State::kAnswered;
    return event.character == 'n' || event.character == 'N' ? State::kGivenUp : State::kOpen;
  }
  if (event.key == TopKey::kEnter) return State::kAnswered;
  if (event.key == TopKey::kBackspace) {
    while (!typed_.empty() && (static_cast<unsigned char>(typed_.back()) & 0xC0) == 0x80) typed_.pop_back();
    if (!typed_.empty()) typed_.pop_back();
  } else if (event.key == TopKey::kCharacter && event.character >= U' ' && typed_.size() < kLongestAnswer) {
    typed_ += Utf8(event.character);
  }
  return State::kOpen;
}

TopLine TopQuestion::Shown(std::size_t columns, bool is_ascii) const {
  TopLine line;
  if (!is_yes_or_no_) {
    const std::string text = question_ + End(question_, typed_, columns);
    line.spans.push_back({text, Colour::kBold});
    // Leave a column for the cursor.
    if (Width(text) + 3 + Width(hint_) <= columns) line.spans.push_back({"   " + hint_, Colour::kDim});
    return line;
  }
  const std::size_t around = Width(question_) + Width(after_) + Width(kYesOrNo);
  const std::size_t room = columns > around ? columns - around : 1;
  const std::string name = Width(name_) > room ? Cut(name_, room, is_ascii) : name_;
  line.spans.push_back({question_ + name + after_, Colour::kBold});
  line.spans.push_back({std::string(kYesOrNo), Colour::kNone});
  return line;
}

std::size_t TopQuestion::Cursor(std::size_t columns) const {
  const TopLine line = Shown(columns, false);
  std::size_t cursor = Width(line.spans.front().text);
  if (is_yes_or_no_) cursor += Width(line.spans.back().text);
  return std::min(cursor, columns - 1);
}

}  // namespace divvy::cli
