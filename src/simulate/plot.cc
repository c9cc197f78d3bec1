#include "simulate/plot.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "simulate/report_text.h"

namespace divvy::simulate {
namespace {

// Sizes of the plot in units of the SVG's view box. A phone shows one unit as about one pixel.
constexpr double kWidth = 460, kHeight = 250, kLeft = 52, kRight = 12, kTop = 10, kBottom = 26;
constexpr double kInnerWidth = kWidth - kLeft - kRight, kInnerHeight = kHeight - kTop - kBottom;
constexpr double kDay = 86400;

struct Tick {
  double at = 0;  // Position along the axis, 0..1.
  std::string text;
};

struct Range {
  double least = 0, most = 0;
};

std::string Px(double value) { return Decimals(value, 1); }

double X(double part) { return kLeft + part * kInnerWidth; }
double Y(double part) { return kTop + (1 - part) * kInnerHeight; }

std::string DateText(double seconds, bool has_hours) {
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto days = static_cast<std::int64_t>(std::floor(seconds / kDay));
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  const std::string day = std::string(kMonths[static_cast<unsigned>(date.month()) - 1]) + " " +
                          std::to_string(static_cast<unsigned>(date.day()));
  const int minutes = static_cast<int>((seconds - static_cast<double>(days) * kDay) / 60);
  if (!has_hours || minutes == 0) return day;
  const auto two = [](int value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  return two(minutes / 60) + ":" + two(minutes % 60);
}

/// The step between ticks of a time axis: a round number of seconds, minutes, hours or days.
double TimeStep(double span) {
  static constexpr std::array kSteps = {1.0,       5.0,       15.0,       60.0,       300.0,      900.0,      3600.0,
                                        10800.,    21600.,    43200.,     kDay,       2 * kDay,   5 * kDay,   10 * kDay,
                                        20 * kDay, 50 * kDay, 100 * kDay, 200 * kDay, 500 * kDay, 1000 * kDay};
  for (const double step : kSteps) {
    if (span / step <= 6) return step;
  }
  return span / 5;
}

std::string ElapsedText(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 60) return Decimals(seconds, 0) + " s";
  if (seconds < 3600) return Decimals(seconds / 60, 0) + " min";
  if (seconds < kDay) return Decimals(seconds / 3600, 0) + " h";
  const double days = seconds / kDay;
  return Decimals(days, days == std::floor(days) ? 0 : 1) + " d";
}

std::string PlainNumber(double value) {
  return value >= 10 || value == std::floor(value) ? Grouped(value) : Decimals(value, value < 1 ? 2 : 1);
}

/// Position of `value` on the axis, 0..1.
double Along(PlotAxis axis, const Range& range, double value) {
  if (axis == PlotAxis::kLogSeconds) return std::log10(std::max(1.0, value)) / std::log10(std::max(10.0, range.most));
  return range.most > range.least ? (value - range.least) / (range.most - range.least) : 0;
}

std::vector<Tick> TicksOf(PlotAxis axis, const Range& range) {
  std::vector<Tick> ticks;
  const auto add = [&](double value, std::string text) {
    const double at = Along(axis, range, value);
    if (at >= 0 && at <= 1 + 1e-9) ticks.push_back({at, std::move(text)});
  };
  switch (axis) {
    case PlotAxis::kLinear:
      for (const double value : Ticks(range.most, 5)) add(value, PlainNumber(value));
      break;
    case PlotAxis::kPercent:
      for (const double value : {0, 25, 50, 75, 100}) add(value, Decimals(value, 0) + " %");
      break;
    case PlotAxis::kDate:
    case PlotAxis::kElapsed: {
      const double step = TimeStep(range.most - range.least);
      for (double value = std::ceil(range.least / step) * step; value <= range.most; value += step)
        add(value, axis == PlotAxis::kDate ? DateText(value, step < kDay) : ElapsedText(value - range.least));
      break;
    }
    case PlotAxis::kLogSeconds:
      for (const double value : {1.0, 10.0, 60.0, 600.0, 3600.0, 10 * 3600.0, 4 * kDay, 40 * kDay, 400 * kDay})
        add(value, value == 1 ? "≤ 1 s" : ElapsedText(value));
      break;
  }
  return ticks;
}

Range RangeOf(PlotAxis axis, const std::vector<PlotSeries>& series, bool is_y) {
  Range range;
  bool is_first = true;
  for (const PlotSeries& one : series) {
    for (const auto& point : one.points) {
      const double value = is_y ? point.second : point.first;
      range.least = is_first ? value : std::min(range.least, value);
      range.most = is_first ? value : std::max(range.most, value);
      is_first = false;
    }
  }
  if (axis == PlotAxis::kPercent) return {0, 100};
  if (axis == PlotAxis::kLinear) return {0, Ticks(range.most, 5).back()};
  if (range.most <= range.least) range.most = range.least + 1;
  return range;
}

std::string Open(const std::string& title) {
  return "<svg viewBox=\"0 0 " + Px(kWidth) + " " + Px(kHeight) + "\" role=\"img\" aria-label=\"" + HtmlText(title) +
         "\">";
}

std::string YGrid(const std::vector<Tick>& ticks) {
  std::string out;
  for (const Tick& tick : ticks) {
    const std::string y = Px(Y(tick.at));
    out += "<line class=\"grid\" x1=\"" + Px(kLeft) + "\" x2=\"" + Px(kWidth - kRight) + "\" y1=\"" + y + "\" y2=\"" +
           y + "\"/><text class=\"end\" x=\"" + Px(kLeft - 6) + "\" y=\"" + Px(Y(tick.at) + 4) + "\">" +
           HtmlText(tick.text) + "</text>";
  }
  return out;
}

std::string XLabel(double x, const std::string& text, bool is_small = false) {
  return "<text class=\"" + std::string(is_small ? "mid small" : "mid") + "\" x=\"" + Px(std::min(x, kWidth - 18)) +
         "\" y=\"" + Px(kHeight - 8) + "\">" + HtmlText(text) + "</text>";
}

std::string SeriesClass(std::size_t number) { return "s" + std::to_string(number % 8); }

}  // namespace

std::vector<double> Ticks(double most, int count) {
  if (!(most > 0)) return {0, 1};
  const double rough = most / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks = {0};
  while (ticks.back() < most * (1 - 1e-9)) ticks.push_back(step * static_cast<double>(ticks.size()));
  return ticks;
}

std::string Svg(const LinePlot& plot) {
  const Range x_range = RangeOf(plot.x, plot.series, false), y_range = RangeOf(plot.y, plot.series, true);
  std::string out = Open(plot.title) + YGrid(TicksOf(plot.y, y_range));
  double free_from = 0;  // Labels that would overlap the previous one are left out.
  for (const Tick& tick : TicksOf(plot.x, x_range)) {
    const double x = X(tick.at), half = 3.4 * static_cast<double>(tick.text.size());
    if (x - half < free_from) continue;
    free_from = x + half + 6;
    out += "<line class=\"tick\" x1=\"" + Px(x) + "\" x2=\"" + Px(x) + "\" y1=\"" + Px(Y(0)) + "\" y2=\"" +
           Px(Y(0) + 4) + "\"/>" + XLabel(x, tick.text);
  }
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    std::string points;
    for (const auto& [x, y] : plot.series[i].points)
      points += (points.empty() ? "" : " ") + Px(X(Along(plot.x, x_range, x))) + "," +
                Px(Y(std::clamp(Along(plot.y, y_range, y), 0.0, 1.0)));
    out += "<polyline class=\"line " + SeriesClass(i) + "\" points=\"" + points + "\"><title>" +
           HtmlText(plot.series[i].name) + "</title></polyline>";
  }
  return out + "</svg>";
}

std::string PlotStyle() {
  // Each series has a colour and a dash pattern, so that lines differ without colour.
  static constexpr std::string_view kDashes[] = {"none", "7 3", "2 3", "9 3 2 3", "none", "7 3", "2 3", "9 3 2 3"};
  std::string out = R"(
:root{--c0:#2563c9;--c1:#d2690e;--c2:#14865a;--c3:#8a47c9;--c4:#c62f4f;--c5:#0d8597;--c6:#8a6a0a;--c7:#5b6675}
@media (prefers-color-scheme:dark){:root{
--c0:#6ea4ff;--c1:#ffa04d;--c2:#4fd39a;--c3:#c39bff;--c4:#ff7d93;--c5:#4fcbdd;--c6:#e0bd55;--c7:#a9b4c2}}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;padding:0;margin:14px 0}
.legend svg{width:26px;height:10px;margin-right:6px;vertical-align:middle}
text{font-size:12px;fill:var(--dim)}.end{text-anchor:end}.mid{text-anchor:middle}.small{font-size:9.5px}
.grid{stroke:var(--line)}.tick{stroke:var(--dim)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
)";
  for (std::size_t i = 0; i < std::size(kDashes); ++i) {
    const std::string number = std::to_string(i);
    out += ".line.s" + number + "{stroke:var(--c" + number + ");stroke-dasharray:" + std::string(kDashes[i]) +
           "}.bar.s" + number + "{fill:var(--c" + number + ")}\n";
  }
  return out;
}

std::string Legend(const std::vector<std::string>& names) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < names.size(); ++i)
    out += R"(<li><svg viewBox="0 0 26 10" aria-hidden="true"><line class="line )" + SeriesClass(i) +
           R"(" x1="0" x2="26" y1="5" y2="5"/></svg>)" + HtmlText(names[i]) + "</li>";
  return out + "</ul>\n";
}

std::string Svg(const BarPlot& plot) {
  double most = 0;
  for (const auto& [name, values] : plot.series) {
    for (const double value : values) most = std::max(most, value);
  }
  // Ticks in the unit that suits the tallest bar.
  const double unit = most < 100 ? 1 : most < 6000 ? 60 : most < 360'000 ? 3600 : kDay;
  const std::string unit_name = unit == 1 ? " s" : unit == 60 ? " min" : unit == 3600 ? " h" : " d";
  const std::vector<double> values = Ticks(most / unit, 5);
  std::vector<Tick> ticks;
  for (const double value : values)
    ticks.push_back({value / values.back(), value == 0 ? "0" : PlainNumber(value) + unit_name});
  std::string out = Open(plot.title) + YGrid(ticks);
  const double group_width = kInnerWidth / static_cast<double>(std::max<std::size_t>(1, plot.groups.size()));
  const double bar = group_width * .8 / static_cast<double>(std::max<std::size_t>(1, plot.series.size()));
  std::size_t longest = 0;
  for (const std::string& group : plot.groups) longest = std::max(longest, group.size());
  const bool is_small = 6.8 * static_cast<double>(longest) > group_width;
  // If there are too many groups, only every n-th name is shown.
  const auto every = static_cast<std::size_t>(std::max(1.0, std::ceil(26 / group_width)));
  for (std::size_t group = 0; group < plot.groups.size(); ++group) {
    const double left = kLeft + group_width * (static_cast<double>(group) + .1);
    for (std::size_t i = 0; i < plot.series.size(); ++i) {
      const double value = plot.series[i].second[group];
      const double height = kInnerHeight * value / unit / values.back();
      out += "<rect class=\"bar " + SeriesClass(i) + "\" x=\"" + Px(left + bar * static_cast<double>(i)) + "\" y=\"" +
             Px(kTop + kInnerHeight - height) + "\" width=\"" + Decimals(std::max(bar - 1, .8), 2) + "\" height=\"" +
             Px(height) + "\"><title>" +
             HtmlText(plot.series[i].first + ", " + plot.groups[group] + ": " + ShortSeconds(value)) +
             "</title></rect>";
    }
    if (group % every == 0) out += XLabel(left + group_width * .4, plot.groups[group], is_small);
  }
  return out + "</svg>";
}

}  // namespace divvy::simulate
