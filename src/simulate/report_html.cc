#include "simulate/report_html.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "simulate/plot.h"
#include "simulate/report_text.h"

namespace divvy::simulate {
namespace {

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--page:#fbfbf9;--card:#fff;--text:#1c1e21;--dim:#666b73;--line:#e3e3de;--best:#0b7a4b}
@media (prefers-color-scheme:dark){:root{--page:#14161a;--card:#1c1f25;--text:#e7e8ea;--dim:#9aa1ab;--line:#30343c;
--best:#4fd39a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1080px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.45rem;line-height:1.25;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:0}
p{margin:2px 0 10px}.dim,figcaption,footer{color:var(--dim)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:14px;margin:14px 0}
section,figure{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px;margin:0;min-width:0}
figure svg{display:block;width:100%;height:auto}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.86rem;white-space:nowrap}
th,td{padding:4px 10px;text-align:right;border-bottom:1px solid var(--line)}
th{color:var(--dim);font-weight:500;font-size:.74rem}
.word{text-align:left}td:first-child,th:first-child{padding-left:0}
.best{color:var(--best);font-weight:650}
details{margin-top:8px}summary{cursor:pointer;color:var(--dim)}
footer{margin-top:22px;font-size:.85rem;overflow-wrap:anywhere}
@media print{details>*{display:block}figure,section{break-inside:avoid}}
)";

/// Whether the cell has the best value of its column. With `is_grouped`, only rows with the same first cell are
/// compared.
bool IsBest(const Grid& grid, std::size_t row, std::size_t column, bool is_grouped) {
  const int better = grid.columns[column].better;
  if (better == 0) return false;
  int others = 0;
  bool differs = false;
  for (const auto& other : grid.rows) {
    if (is_grouped && other[0].text != grid.rows[row][0].text) continue;
    const double difference = (other[column].value - grid.rows[row][column].value) * better;
    if (difference > 0) return false;
    differs = differs || difference < 0;
    ++others;
  }
  return others > 1 && differs;
}

std::string HtmlTable(const Grid& grid, bool is_grouped) {
  const auto is_word = [&](std::size_t i) {
    return !grid.rows.empty() && grid.rows.front()[i].unit == GridCell::Unit::kText;
  };
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (std::size_t i = 0; i < grid.columns.size(); ++i)
    out += std::string(is_word(i) ? "<th class=\"word\">" : "<th>") + HtmlText(grid.columns[i].title) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (std::size_t row = 0; row < grid.rows.size(); ++row) {
    out += "<tr>";
    for (std::size_t i = 0; i < grid.columns.size(); ++i) {
      const bool is_best = IsBest(grid, row, i, is_grouped);
      out += std::string(is_word(i) ? "<td class=\"word\">"
                         : is_best  ? "<td class=\"best\">"
                                    : "<td>") +
             HtmlText(Shown(grid.rows[row][i])) + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string FigureHtml(const std::string& title, const std::string& caption, const std::string& svg, const Grid& table,
                       bool is_grouped) {
  return "<figure><h2>" + HtmlText(title) + "</h2><figcaption>" + HtmlText(caption) + "</figcaption>" + svg +
         "\n<details><summary>Numbers</summary>" + HtmlTable(table, is_grouped) + "</details></figure>\n";
}

/// Traces without dates begin at 0 and not in 1970.
PlotAxis TimeAxis(const Report& report) {
  constexpr double kYear1990 = 631'152'000;
  for (const PolicyRun& run : report.runs) {
    if (ToSeconds(run.replayed.load.begin()) < kYear1990) return PlotAxis::kElapsed;
  }
  return PlotAxis::kDate;
}

using LoadValue = std::function<double(const PolicyRun&, const LoadLevel&)>;

std::string LoadFigure(const Report& report, const std::string& title, const std::string& caption, PlotAxis y,
                       GridCell::Unit unit, const LoadValue& value) {
  LinePlot plot{title, TimeAxis(report), y, {}};
  Grid table;
  table.columns = {{"SINCE THE FIRST JOB", "since_seconds", 0}};
  constexpr std::size_t kRows = 24;
  std::vector<std::vector<LoadSeries::Point>> all;
  Time end{};
  for (const PolicyRun& run : report.runs) {
    PlotSeries series{run.policy, {}};
    all.push_back(run.replayed.load.Points());
    for (const auto& point : all.back()) {
      series.points.emplace_back(ToSeconds(point.begin), value(run, point.mean));
      series.points.emplace_back(ToSeconds(point.begin + point.width), value(run, point.mean));
    }
    plot.series.push_back(std::move(series));
    table.columns.push_back({run.policy, run.policy, 0});
    end = std::max(end, run.replayed.load.end());
  }
  const Time begin = report.runs.front().replayed.load.begin();
  for (std::size_t i = 0; i < kRows; ++i) {
    const Time at = begin + (end - begin) / kRows * static_cast<std::int64_t>(i);
    std::vector<GridCell> row = {{GridCell::Unit::kSeconds, {}, ToSeconds(at - begin)}};
    for (std::size_t run = 0; run < all.size(); ++run) {
      const auto next = std::ranges::upper_bound(all[run], at, {}, &LoadSeries::Point::begin);
      const bool is_over = next == all[run].begin() || at >= std::prev(next)->begin + std::prev(next)->width;
      row.push_back({unit, {}, is_over ? 0 : value(report.runs[run], std::prev(next)->mean)});
    }
    table.rows.push_back(std::move(row));
  }
  return FigureHtml(title, caption, Svg(plot), table, false);
}

std::string ShareFigure(const Report& report, const std::string& title, const std::string& caption,
                        double JobFigures::*value) {
  LinePlot plot{title, PlotAxis::kLogSeconds, PlotAxis::kPercent, {}};
  Grid table;
  table.columns = {{"FRACTION OF JOBS", "part_percent", 0}};
  constexpr int kSteps = 200;
  const std::vector<double> shown = {10, 25, 50, 75, 90, 95, 99, 99.9, 100};
  for (const double percent : shown) table.rows.push_back({{GridCell::Unit::kPercent, {}, percent}});
  for (const PolicyRun& run : report.runs) {
    std::vector<double> values;
    for (const JobFigures& job : run.metrics.jobs) values.push_back(job.*value);
    std::ranges::sort(values);
    PlotSeries series{run.policy, {}};
    for (int i = 0; i <= kSteps && !values.empty(); ++i) {
      const double part = static_cast<double>(i) / kSteps;
      series.points.emplace_back(Percentile(values, part), 100 * part);
    }
    plot.series.push_back(std::move(series));
    table.columns.push_back({run.policy, run.policy, -1});
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const double seconds = values.empty() ? 0 : Percentile(values, shown[i] / 100);
      table.rows[i].push_back({GridCell::Unit::kSeconds, {}, seconds});
    }
  }
  return FigureHtml(title, caption, Svg(plot), table, false);
}

std::string GroupFigure(const Report& report, const std::string& title, const std::string& caption,
                        RunMetrics::Groups RunMetrics::*groups, const std::string& column, Spread Figures::*spread) {
  BarPlot plot{title, {}, {}};
  for (const PolicyRun& run : report.runs) {
    for (const auto& group : run.metrics.*groups) {
      if (std::ranges::find(plot.groups, group.first) == plot.groups.end()) plot.groups.push_back(group.first);
    }
  }
  for (const PolicyRun& run : report.runs) {
    std::vector<double> values(plot.groups.size(), 0);
    for (const auto& [name, figures] : run.metrics.*groups)
      values[static_cast<std::size_t>(std::ranges::find(plot.groups, name) - plot.groups.begin())] =
          (figures.*spread).mean;
    plot.series.emplace_back(run.policy, std::move(values));
  }
  return FigureHtml(title, caption, Svg(plot), GroupGrid(report, groups, column, column), true);
}

/// Nodes of providers over time.
std::string NodesFigure(const Report& report) {
  const std::string title = "Nodes from providers";
  LinePlot plot{title, TimeAxis(report), PlotAxis::kLinear, {}};
  Grid table;
  table.columns = {{"POLICY", "policy", 0}, {"MOST", "most_nodes", 0}, {"NODE HOURS", "node_hours", 0}};
  for (const PolicyRun& run : report.runs) {
    if (!run.growth) continue;
    PlotSeries series{run.policy, {}};
    for (const auto& [time, nodes] : run.growth->nodes)
      series.points.emplace_back(ToSeconds(time), static_cast<double>(nodes));
    plot.series.push_back(std::move(series));
    table.rows.push_back({{GridCell::Unit::kText, run.policy, 0},
                          {GridCell::Unit::kCount, {}, static_cast<double>(run.growth->most_nodes)},
                          {GridCell::Unit::kCount, {}, run.growth->node_hours}});
  }
  if (plot.series.empty()) return {};
  return FigureHtml(title, "Nodes that exist or were requested, sampled every hour.", Svg(plot), table, false);
}

std::string LegendOf(const Report& report) {
  std::vector<std::string> names;
  for (const PolicyRun& run : report.runs) names.push_back(run.policy);
  return Legend(names);
}

std::string Subtitle(const Report& report) {
  const PolicyRun& run = report.runs.front();
  double gpu_seconds = 0;
  for (const TraceJob& job : run.workload->jobs)
    gpu_seconds += ToSeconds(job.runtime) * job.gpus * job.share.ten_thousandths() / GpuShare::kWhole;
  return Grouped(static_cast<double>(run.workload->jobs.size())) + " jobs, " + Grouped(gpu_seconds / 3600) +
         " GPU hours, on " + Grouped(static_cast<double>(run.cluster.nodes())) + " nodes with " +
         Grouped(static_cast<double>(run.cluster.gpus())) + " GPUs";
}

std::string Plots(const Report& report) {
  const auto allocated = [](const PolicyRun& run, const LoadLevel& level) {
    return 100 * level.allocated_gpus / static_cast<double>(std::max<std::int64_t>(1, run.cluster.gpus()));
  };
  const bool has_growth = report.runs.front().growth.has_value();
  const auto in_use = [](const PolicyRun&, const LoadLevel& level) { return level.allocated_gpus; };
  const auto waiting = [](const PolicyRun&, const LoadLevel& level) { return level.waiting_jobs; };
  return (has_growth ? NodesFigure(report) + LoadFigure(report, "GPUs in use", "On all nodes, over time.",
                                                        PlotAxis::kLinear, GridCell::Unit::kCount, in_use)
                     : LoadFigure(report, "GPUs allocated", "Percentage of all GPUs, over time.", PlotAxis::kPercent,
                                  GridCell::Unit::kPercent, allocated)) +
         LoadFigure(report, "Jobs waiting", "The length of the queue over time.", PlotAxis::kLinear,
                    GridCell::Unit::kCount, waiting) +
         ShareFigure(report, "Waiting time", "Fraction of jobs that waited at most this long.",
                     &JobFigures::wait_seconds) +
         ShareFigure(report, "Completion time", "Fraction of jobs that completed within this time.",
                     &JobFigures::jct_seconds) +
         GroupFigure(report, "Mean wait by size", "By the number of requested GPUs.", &RunMetrics::by_size, "GPUS",
                     &Figures::wait_seconds) +
         GroupFigure(report, "Mean wait by hour", "By the hour of the day of submission.", &RunMetrics::by_hour, "HOUR",
                     &Figures::wait_seconds);
}

}  // namespace

std::string ReportHtml(const Report& report, const std::string& made_with) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>" +
      HtmlText(report.title) + "</title><style>" + std::string(kStyle) + PlotStyle() +
      "</style></head><body><main>\n<h1>" + HtmlText(report.title) + "</h1>\n<p class=\"dim\">" + Subtitle(report) +
      "</p>\n" + LegendOf(report) + "<section><h2>Comparison</h2>\n" + HtmlTable(SummaryGrid(report), false) +
      "</section>\n<div class=\"plots\">\n" + Plots(report) + "</div>\n";
  const Grid teams = GroupGrid(report, &RunMetrics::by_team, "TEAM", "team");
  if (!teams.rows.empty())
    out += "<section><h2>By team</h2>\n<details><summary>Numbers</summary>" + HtmlTable(teams, true) +
           "</details></section>\n";
  out +=
      "<footer><p>JCT: from submission to the end. Slowdown: JCT over the run time, both at least 10 s. Rho: JCT over "
      "the time that the job would have taken with an equal share of the cluster; above 1 is unfair. Widest: the 10% "
      "of jobs that requested the most GPUs.</p>\n";
  for (const std::string& note : report.notes) out += "<p>" + HtmlText(note) + "</p>\n";
  return out + "<p>" + HtmlText(made_with) + "</p></footer>\n</main></body></html>\n";
}

}  // namespace divvy::simulate
