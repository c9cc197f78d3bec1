// Curves in a terminal, drawn with block characters in steps of an eighth of a line.
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
  bool is_ascii = false;  // Draws with "_.:-=+*#" instead of block characters.
};

/// Neighbours returns how many neighbouring values must be merged into one, so that at most `most` (>= 1) remain.
/// Joined merges that many values into their mean.
std::size_t Neighbours(std::size_t values, std::size_t most);
Values Joined(const Values& values, std::size_t neighbours);

/// Lines from top to bottom, one character per value, as high as the value is in the frame; a blank for a missing
/// value. A value at the bottom shows as the lowest eighth, so that it differs from a missing one.
std::vector<std::string> DrawCurve(const Values& values, const CurveFrame& frame);

/// Draws the values as one line of characters, one per value: "▁▃█ ▂". `bottom` and `top` are the values of the lowest
/// and the highest character; a missing value is a blank.
std::string Sparkline(const Values& values, double bottom, double top, bool is_ascii = false);

/// A value with its unit for users: "82%", "4.3G", "664 W", "1.98 GHz", "12M/s". Without a unit, four digits.
std::string MetricText(double value, std::string_view unit);

}  // namespace divvy::cli
