// Plots as inline SVG, so that a page needs no external resources. PlotStyle gives series their colours and dashes by
// number (s0..s7), for light and dark mode.
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
  kLinear,      // Starts at 0.
  kPercent,     // 0 to 100.
  kDate,        // Seconds since 1970. Whole days are labelled with month and day.
  kElapsed,     // Seconds since a start.
  kLogSeconds,  // Starts at one second; smaller values are drawn there.
};

struct LinePlot {
  std::string title;  // For the whole plot; screen readers read it out.
  PlotAxis x = PlotAxis::kElapsed;
  PlotAxis y = PlotAxis::kLinear;
  std::vector<PlotSeries> series;
};
std::string Svg(const LinePlot& plot);

/// Groups of bars, with one bar per series in each group. Values are seconds and start at 0.
struct BarPlot {
  std::string title;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<double>>> series;  // One value per group.
};
std::string Svg(const BarPlot& plot);

/// Returns the CSS that plots and legends need, for a page whose style sheet defines --dim and --line.
std::string PlotStyle();
/// Returns the HTML of a legend: the names of the series in order, each after a sample of its line.
std::string Legend(const std::vector<std::string>& names);

/// Returns round values for the marks of an axis, which divide 0 to `most` into at most `count` steps. The last one is
/// not below `most`.
std::vector<double> Ticks(double most, int count);

}  // namespace divvy::simulate
