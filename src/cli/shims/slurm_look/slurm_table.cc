#include "cli/shims/slurm_look/slurm_table.h"

#include <cstdlib>

#include "base/text.h"
#include "cli/term/text_width.h"

namespace divvy::cli::slurm {

namespace {

std::string LineOf(const std::vector<TableColumn>& columns, const std::vector<std::string>& cells,
                   const TableStyle& style) {
  std::string out;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (style.delimiter.empty()) out += TableCell(cells[i], columns[i].width) + " ";
    else out += (i > 0 ? style.delimiter : "") + cells[i];
  }
  if (style.ends_with_delimiter) out += style.delimiter;
  return out + "\n";
}

}  // namespace

TableStyle TableFlags::style() const {
  TableStyle style;
  style.has_header = !has_no_header;
  style.ends_with_delimiter = is_parsable && !is_parsable2;
  if (is_parsable || is_parsable2) style.delimiter = delimiter.empty() ? "|" : delimiter;
  return style;
}

std::string TableCell(std::string_view text, int width) {
  const auto room = static_cast<std::size_t>(std::abs(width));
  std::string cut(text);
  if (Width(text) > room) cut = room > 0 ? std::string(Beginning(text, room - 1)) + "+" : "";
  const std::string space(room - Width(cut), ' ');
  return width < 0 ? cut + space : space + cut;
}

std::string DrawTable(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                      const TableStyle& style) {
  std::string text;
  if (style.has_header) {
    std::vector<std::string> headers;
    std::vector<std::string> rules;
    for (const TableColumn& column : columns) {
      headers.push_back(column.header);
      rules.emplace_back(static_cast<std::size_t>(std::abs(column.width)), '-');
    }
    text += LineOf(columns, headers, style);
    if (style.delimiter.empty()) text += LineOf(columns, rules, style);
  }
  for (const std::vector<std::string>& row : rows) text += LineOf(columns, row, style);
  return text;
}

Result<WantedField> ReadWantedField(std::string_view text) {
  const auto percent = text.find('%');
  WantedField field{std::string(text.substr(0, percent)), 0};
  if (percent == std::string_view::npos) return field;
  const auto width = ParseInteger(text.substr(percent + 1));
  if (!width || std::abs(*width) > 10'000)
    return InvalidArgument("Invalid width in field: \"" + std::string(text) + "\"");
  field.width = static_cast<int>(*width);
  return field;
}

}  // namespace divvy::cli::slurm
