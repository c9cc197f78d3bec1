// Tables as sacct, sacctmgr, sshare and sstat print them: columns of fixed widths below a header with a rule, or fields
// separated by a delimiter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::cli::slurm {

struct TableColumn {
  std::string header;
  int width = 10;  // Negative: left-aligned. Longer text is cut and ends with '+'.
};

struct TableStyle {
  std::string delimiter;             // "|" with -p and -P; empty: aligned columns.
  bool ends_with_delimiter = false;  // -p.
  bool has_header = true;
};

/// The options -n, -p, -P and --delimiter.
struct TableFlags {
  bool has_no_header = false;
  bool is_parsable = false;
  bool is_parsable2 = false;
  std::string delimiter;

  TableStyle style() const;
};

/// Returns the table as text. Each row must have one text per column.
std::string DrawTable(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                      const TableStyle& style);

/// Pads or cuts `text` to the width of a column; a cut text ends with '+'. A negative width means left-aligned.
std::string TableCell(std::string_view text, int width);

/// A requested field and its width: "State", "State%20", "State%-20".
struct WantedField {
  std::string name;
  int width = 0;  // 0: the field's default.
};
Result<WantedField> ReadWantedField(std::string_view text);

}  // namespace divvy::cli::slurm
