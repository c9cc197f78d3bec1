#include "dialect/script/script_lines.h"

#include <optional>
#include <string>

#include "base/text.h"
#include "dialect/script/option_line_limit.h"

namespace divvy::dialect {
namespace {

/// Every line may be a hint, but long lists of hints do not help.
constexpr std::size_t kMostUnread = 20;

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

/// The text after "# MARK"; nullopt if the line is something else.
std::optional<std::string_view> AfterMark(std::string_view line, std::string_view mark) {
  if (!line.starts_with('#')) return std::nullopt;
  line.remove_prefix(1);
  while (!line.empty() && IsBlank(line.front())) line.remove_prefix(1);
  if (!line.starts_with(mark)) return std::nullopt;
  line.remove_prefix(mark.size());
  if (!line.empty() && !IsBlank(line.front())) return std::nullopt;
  return line;
}

/// `text` without a trailing comment: '#' at the beginning of a word, outside quotes.
std::string_view WithoutComment(std::string_view text) {
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '#' && (i == 0 || IsBlank(text[i - 1]))) {
      return text.substr(0, i);
    }
  }
  return text;
}

/// Why a line such as "## GFLOW", "# gflow --gpus 1" or "# GLFOW --gpus 1" is only a comment; "" for any other comment.
std::string WhyUnread(std::string_view line, std::string_view mark) {
  std::size_t hashes = 0;
  while (line.starts_with('#')) {
    line.remove_prefix(1);
    ++hashes;
  }
  if (hashes == 0 || line.size() > 1000) return "";
  const std::vector<std::string_view> words = SplitWords(line);
  if (words.size() < 2 || !words[1].starts_with('-')) return "";
  if (words.front() == mark) return hashes > 1 ? "switched off by the second '#'" : "";
  const std::string_view marks[] = {mark};
  if (Nearest(words.front(), marks).empty()) return "";
  return "this is a comment; write # " + std::string(mark);
}

}  // namespace

OptionLines FindOptionLines(std::string_view script, std::string_view mark) {
  OptionLines found;
  const auto leave = [&](int number, std::string_view line, std::string why) {
    if (found.unread.size() < kMostUnread) found.unread.push_back({number, std::string(line), std::move(why)});
  };
  int number = 0;
  bool has_begun = false;  // The first command has been seen.
  for (std::string_view line : Split(script, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string_view trimmed = Trim(line);
    const auto options = AfterMark(line, mark);
    if (options && has_begun) {
      leave(number, line, "options after the first command are not read; move the line up");
    } else if (options) {
      OptionLine one{.number = number, .text = std::string(line), .words = {}, .error = ""};
      auto words = ShellSplit(WithoutComment(*options));
      if (words) {
        one.words = std::move(*words);
      } else {
        one.error = "a quote is not closed";
      }
      found.lines.push_back(std::move(one));
    } else if (trimmed.starts_with('#')) {
      if (has_begun) continue;
      std::string why = AfterMark(trimmed, mark) ? "indented; begin the line with '#'" : WhyUnread(trimmed, mark);
      if (!why.empty()) leave(number, line, std::move(why));
    } else if (!trimmed.empty()) {
      has_begun = true;
    }
  }
  return found;
}

std::string AtLine(std::string_view path, int number) {
  return std::string(path) + " line " + std::to_string(number) + ": ";
}

Status CheckOptionLines(std::string_view script, std::size_t more) {
  constexpr std::size_t kMost = 128 << 10;
  std::size_t bytes = more;
  for (const std::string_view line : Split(script, '\n')) bytes += line.starts_with('#') ? line.size() : 0;
  if (bytes <= kMost) return {};
  return InvalidArgument("the options and the lines of the script that begin with '#' have " + std::to_string(bytes) +
                         " bytes, but at most " + std::to_string(kMost) +
                         " can be read here; submit the script with divvy submit");
}

}  // namespace divvy::dialect
