// A report as one self-contained HTML file: bars, and a table below them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/client/table.h"

namespace divvy::cli {

struct HtmlBar {
  std::string label;
  double value = 0;
  double marked = 0;  // The part of `value` shown in the warning colour; 0..value.
  std::string text;   // `value` as text for users.
};

struct HtmlReport {
  std::string title;
  std::string note;           // The scope of the report.
  std::string bars_are;       // Unit of the bars: "GPU-hours".
  std::string marked_are;     // Meaning of the warning colour: "not used". Empty if unused.
  std::string rest_is;        // Meaning of the usual colour: "used".
  std::vector<HtmlBar> bars;  // At most the first 60 are drawn.
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string plot = "";  // A drawing from simulate/plot.h, next to the bars. It is markup and is not escaped.
  std::string host = "";
};

/// Returns the page as HTML. All texts of the report are escaped, except `plot`.
std::string ToHtml(const HtmlReport& report);

}  // namespace divvy::cli
