// Plots as inline SVG, drawn here so that a page needs nothing from outside. Series take the colours and dashes of
// their number (s0..s7), for light and dark, by PlotStyle.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace divvy::simulate {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // Ascending x.
};

enum class PlotAxis {
  kLinear,      // From 0 on.
  kPercent,     // 0 to 100.
  kDate,        // Seconds since 1970; whole days are named by month and day.
  kElapsed,     // Seconds since a beginning.
  kLogSeconds,  // From one second on, what is less is drawn there.
};

struct LinePlot {
  std::string title;  // Of the whole, read out by screen readers.
  PlotAxis x = PlotAxis::kElapsed;
  PlotAxis y = PlotAxis::kLinear;
  std::vector<PlotSeries> series;
};
std::string Svg(const LinePlot& plot);

/// Bars in groups, a bar of each group per series, in seconds from 0 on.
struct BarPlot {
  std::string title;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<double>>> series;  // A value per group.
};
std::string Svg(const BarPlot& plot);

/// For a page's style sheet that has --dim and --line: what drawings and legends need.
std::string PlotStyle();
/// The names of the series in their order, each behind its line.
std::string Legend(const std::vector<std::string>& names);

/// Round values that part 0..most into at most `count` steps; the last is not below `most`.
std::vector<double> Ticks(double most, int count);

}  // namespace divvy::simulate
