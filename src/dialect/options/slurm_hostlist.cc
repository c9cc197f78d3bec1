#include "dialect/options/slurm_hostlist.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace divvy::dialect {
namespace {

constexpr std::size_t kMostNames = 65'536;

bool IsDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

Error Wrong(std::string_view text, const std::string& why = "") {
  return InvalidArgument("Invalid hostlist: " + std::string(text) + (why.empty() ? "" : ": " + why));
}

std::string Padded(std::int64_t number, std::size_t width) {
  std::string text = std::to_string(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

/// The numbers between two brackets: "1-3,08".
Result<std::vector<std::string>> ExpandRange(std::string_view inside, std::string_view whole) {
  std::vector<std::string> numbers;
  for (const std::string_view item : Split(inside, ',')) {
    const auto dash = item.find('-');
    const std::string_view first = item.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : item.substr(dash + 1);
    if (!IsDigits(first) || !IsDigits(last) || first.size() > 9 || last.size() > 9) return Wrong(whole);
    const std::int64_t from = ParseInteger(first).value_or(0);
    const std::int64_t to = ParseInteger(last).value_or(0);
    if (to < from) {
      return Wrong(whole, std::string(item) + " runs backwards; write " + std::string(last) + "-" + std::string(first));
    }
    if (static_cast<std::size_t>(to - from) + numbers.size() >= kMostNames)
      return Wrong(whole, "stands for more than " + std::to_string(kMostNames) + " names");
    for (std::int64_t number = from; number <= to; ++number) numbers.push_back(Padded(number, first.size()));
  }
  return numbers;
}

/// As in Slurm, the numbers of the last brackets change first, and then those of the other brackets from left to right:
/// "a[0-1]b[0-1]c[0-1]" is a0b0c0, a0b0c1, a1b0c0, a1b0c1, a0b1c0, ...
Status ExpandName(std::string_view name, std::string_view whole, std::vector<std::string>& out) {
  std::vector<std::string> made = {""};
  while (!name.empty()) {
    const auto open = name.find('[');
    const std::string_view plain = name.substr(0, open);
    if (plain.find(']') != std::string_view::npos) return Wrong(whole);
    for (std::string& one : made) one += plain;
    if (open == std::string_view::npos) break;
    const auto close = name.find(']', open);
    if (close == std::string_view::npos) return Wrong(whole);
    DIVVY_TRY(const std::vector<std::string> numbers, ExpandRange(name.substr(open + 1, close - open - 1), whole));
    if (made.size() * numbers.size() > kMostNames) return Wrong(whole);
    name.remove_prefix(close + 1);
    const bool is_last = name.find('[') == std::string_view::npos;
    std::vector<std::string> longer;
    for (std::size_t i = 0; i < made.size() * numbers.size(); ++i) {
      const std::size_t before = is_last ? i / numbers.size() : i % made.size();
      longer.push_back(made[before] + numbers[is_last ? i % numbers.size() : i / made.size()]);
    }
    made = std::move(longer);
  }
  if (out.size() + made.size() > kMostNames) return Wrong(whole);
  out.insert(out.end(), made.begin(), made.end());
  return {};
}

/// A name, split at its last number.
struct Cut {
  std::string prefix;
  std::string number;  // Empty if the name does not end with a number.
};

Cut CutName(const std::string& name) {
  std::size_t start = name.size();
  while (start > 0 && std::isdigit(static_cast<unsigned char>(name[start - 1])) != 0) --start;
  if (name.size() - start > 9) start = name.size();
  return {name.substr(0, start), name.substr(start)};
}

}  // namespace

Result<std::vector<std::string_view>> SplitHostList(std::string_view text) {
  std::vector<std::string_view> entries;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (depth < 0 || depth > 1) return Wrong(text);
    if (i == text.size() || (depth == 0 && (text[i] == ',' || text[i] == ' '))) {
      if (depth != 0) return Wrong(text);
      const std::string_view entry = Trim(text.substr(start, i - start));
      if (!entry.empty()) entries.push_back(entry);
      start = i + 1;
    }
  }
  return entries;
}

Result<std::vector<std::string>> ExpandHostList(std::string_view text) {
  DIVVY_TRY(const std::vector<std::string_view> entries, SplitHostList(text));
  std::vector<std::string> names;
  for (const std::string_view entry : entries) DIVVY_CHECK(ExpandName(entry, text, names));
  return names;
}

std::string FoldHostList(const std::vector<std::string>& names) {
  std::string text;
  std::size_t i = 0;
  while (i < names.size()) {
    const Cut first = CutName(names[i]);
    std::size_t end = i + 1;
    std::string inside = first.number;
    if (!first.number.empty()) {
      std::int64_t previous = ParseInteger(first.number).value_or(0);
      std::string run_end;
      const auto close_run = [&] {
        if (!run_end.empty()) inside += "-" + run_end;
        run_end.clear();
      };
      for (; end < names.size(); ++end) {
        const Cut next = CutName(names[end]);
        // A name may join the bracket only if expanding the list restores the name's leading zeros.
        if (next.prefix != first.prefix || next.number.empty()) break;
        const bool is_padded = first.number.front() == '0' || next.number.front() == '0';
        if (is_padded && next.number.size() != first.number.size()) break;
        const std::int64_t number = ParseInteger(next.number).value_or(0);
        if (number == previous + 1) {
          run_end = next.number;
        } else {
          close_run();
          inside += "," + next.number;
        }
        previous = number;
      }
      close_run();
    }
    text += (text.empty() ? "" : ",") + first.prefix;
    text += end - i > 1 ? "[" + inside + "]" : inside;
    i = end;
  }
  return text;
}

}  // namespace divvy::dialect
