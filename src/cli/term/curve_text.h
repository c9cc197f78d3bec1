// Curves in a terminal: columns of block characters, an eighth of a line fine.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace divvy::cli {

using Values = std::vector<std::optional<double>>;

struct CurveFrame {
  double bottom = 0;
  double top = 1;
  std::size_t rows = 4;
  bool is_ascii = false;  // "_.:-=+*#" for blocks.
};

/// At most `most` (>= 1) values: as many neighbours as that takes are one, their mean. How many: `Neighbours`.
std::size_t Neighbours(std::size_t values, std::size_t most);
Values Joined(const Values& values, std::size_t neighbours);

/// From the top line down, one character for each value: as high as it is in the frame, a blank for none. A value at
/// the bottom shows as the lowest eighth, so that it differs from none.
std::vector<std::string> DrawCurve(const Values& values, const CurveFrame& frame);

/// One line, from `bottom` to `top`: "▁▃█ ▂".
std::string Sparkline(const Values& values, double bottom, double top, bool is_ascii = false);

/// With its unit as people read it: "82%", "4.3G", "664 W", "1.98 GHz", "12M/s"; without one, in four digits.
std::string MetricText(double value, std::string_view unit);

}  // namespace divvy::cli
