// Slurm's format strings: "%.18i %9P" (-o) and "jobid:.10,name:20" (-O), over any kind of row.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "cli/term/text_width.h"

namespace divvy::cli::slurm {

/// A column that a format can select by letter or by name.
template <typename Row>
struct Field {
  char letter = 0;        // 0: by word only.
  std::string_view name;  // For -O, in lower case. Empty: by letter only.
  std::string_view header;
  std::function<std::string(const Row&)> text;
  bool needs_detail = false;  // Only a job's full answer has it.
};

/// A column that a format requests.
template <typename Row>
struct Shown {
  const Field<Row>* field = nullptr;
  std::size_t width = 0;  // 0: as wide as the text. Otherwise padded or cut.
  bool is_right_aligned = false;
  std::string prefix;  // Text before the first column.
  std::string suffix;  // Text after this one.
};

inline std::string FitTo(std::string_view text, std::size_t width, bool is_right_aligned) {
  if (width == 0) return std::string(text);
  const std::string cut(Beginning(text, width));
  const std::string space(width - Width(cut), ' ');
  return is_right_aligned ? space + cut : cut + space;
}

/// Parses the format of -o: "%[[.]size]type[suffix]...", or "%all" for every letter, with '|' between the columns.
/// Refuses an unknown letter; `what` is the program's name for its format ("job").
template <typename Row>
Result<std::vector<Shown<Row>>> ParseLetters(std::string_view format, const std::vector<Field<Row>>& fields,
                                             std::string_view what) {
  std::vector<Shown<Row>> shown;
  if (format == "%all") {
    for (const Field<Row>& field : fields) {
      if (field.letter != 0) shown.push_back({&field, 0, false, shown.empty() ? "" : "|", ""});
    }
    return shown;
  }
  std::size_t at = format.find('%');
  const std::string prefix(format.substr(0, at));
  while (at < format.size()) {
    Shown<Row> one;
    if (shown.empty()) one.prefix = prefix;
    ++at;
    if (at < format.size() && format[at] == '.') {
      one.is_right_aligned = true;
      ++at;
    }
    while (at < format.size() && format[at] >= '0' && format[at] <= '9' && one.width < 10'000) {
      one.width = one.width * 10 + static_cast<std::size_t>(format[at++] - '0');
    }
    const char letter = at < format.size() ? format[at] : '\0';
    for (const Field<Row>& field : fields) {
      if (field.letter == letter && letter != 0) one.field = &field;
    }
    if (one.field == nullptr) {
      return InvalidArgument("Invalid " + std::string(what) + " format specification: " + std::string(1, letter));
    }
    const std::size_t end = std::min(format.find('%', ++at), format.size());
    one.suffix = format.substr(at, end - at);
    shown.push_back(std::move(one));
    at = end;
  }
  return shown;
}

/// Parses the format of -O: "type[:[.][size][suffix]],...". A column without a size has 20 characters; "ALL" means
/// every name.
template <typename Row>
Result<std::vector<Shown<Row>>> ParseNames(std::string_view format, const std::vector<Field<Row>>& fields,
                                           std::string_view what) {
  std::vector<Shown<Row>> shown;
  if (EqualsIgnoringCase(format, "all")) {
    for (const Field<Row>& field : fields) {
      if (!field.name.empty()) shown.push_back({&field, 20, false, "", ""});
    }
    return shown;
  }
  for (const std::string_view item : Split(format, ',')) {
    Shown<Row> one;
    one.width = 20;
    const auto colon = item.find(':');
    const std::string name = ToLower(Trim(item.substr(0, colon)));
    for (const Field<Row>& field : fields) {
      if (!field.name.empty() && field.name == name) one.field = &field;
    }
    if (one.field == nullptr) {
      return InvalidArgument("Invalid " + std::string(what) + " format specification: " + std::string(item));
    }
    if (colon != std::string_view::npos) {
      std::string_view rest = item.substr(colon + 1);
      if (rest.starts_with('.')) {
        one.is_right_aligned = true;
        rest.remove_prefix(1);
      }
      const auto end = std::min(rest.find_first_not_of("0123456789"), rest.size());
      // A colon without a number: as wide as the text is.
      one.width =
          end == 0 ? 0
                   : static_cast<std::size_t>(ParseInteger(rest.substr(0, std::min<std::size_t>(end, 4))).value_or(20));
      one.suffix = rest.substr(end);
    }
    shown.push_back(std::move(one));
  }
  return shown;
}

template <typename Row>
std::string HeaderLine(const std::vector<Shown<Row>>& columns) {
  std::string line;
  for (const Shown<Row>& one : columns) {
    line += one.prefix + FitTo(one.field->header, one.width, one.is_right_aligned) + one.suffix;
  }
  return line + "\n";
}

template <typename Row>
std::string RowLine(const std::vector<Shown<Row>>& columns, const Row& row) {
  std::string line;
  for (const Shown<Row>& one : columns) {
    line += one.prefix + FitTo(one.field->text(row), one.width, one.is_right_aligned) + one.suffix;
  }
  return line + "\n";
}

}  // namespace divvy::cli::slurm
