// A report as one HTML file that needs nothing else: bars, and the table below them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/client/table.h"

namespace divvy::cli {

struct HtmlBar {
  std::string label;
  double value = 0;
  double marked = 0;  // Of the value, the part that is shown in the colour of trouble; 0..value.
  std::string text;   // The value, as people read it.
};

struct HtmlReport {
  std::string title;
  std::string note;           // What it is of.
  std::string bars_are;       // "GPU-hours"
  std::string marked_are;     // The part of them in the other colour: "not used"; empty: there is none.
  std::string rest_is;        // The part in the usual colour: "used".
  std::vector<HtmlBar> bars;  // At most the first 60 are drawn.
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string plot = "";  // Beside bars: what simulate/plot.h draws, which is markup already.
  std::string host = "";
};

/// Whatever texts hold, none of it is markup.
std::string ToHtml(const HtmlReport& report);

}  // namespace divvy::cli
