// Tables as sacct, sacctmgr and sshare print them: columns of their own widths under a header with a rule, or fields
// with a delimiter between.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::cli::slurm {

struct TableColumn {
  std::string header;
  int width = 10;  // Below zero: left-aligned. Longer text is cut, and ends with '+'.
};

struct TableStyle {
  std::string delimiter;             // "|" with -p and -P; empty: aligned columns.
  bool ends_with_delimiter = false;  // -p.
  bool has_header = true;
};

/// Each row has a text for each column.
std::string DrawTable(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                      const TableStyle& style);

/// `text` in a column of that width.
std::string TableCell(std::string_view text, int width);

/// "State", "State%20", "State%-20": a field, and how wide it is to be.
struct WantedField {
  std::string name;
  int width = 0;  // 0: as it comes.
};
Result<WantedField> ReadWantedField(std::string_view text);

}  // namespace divvy::cli::slurm
