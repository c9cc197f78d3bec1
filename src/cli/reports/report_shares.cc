// divvy report shares.
#include <algorithm>
#include <cmath>

#include "cli/client/job_text.h"
#include "cli/reports/report_show.h"
#include "cli/term/curve_text.h"
#include "simulate/plot.h"
#include "wire/messages/page_messages.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kMostCurves = 8;  // One per colour.
constexpr int kSteps = 48;              // Fits into a table line.
constexpr int kStepsOfFile = 240;
constexpr std::size_t kMostWithShares = 4;  // Limit with shares, which need two curves each.

std::string NameOf(const std::string& group) { return group.empty() ? "-" : group; }

double Most(const wire::SharesRow& row) { return row.gpus.empty() ? 0 : *std::ranges::max_element(row.gpus); }

/// Mean over all steps: the GPU-hours divided by the period.
double Mean(const wire::SharesReport& report, const wire::SharesRow& row) {
  return row.gpu_hours * 3600 / std::max(1.0, report.until - report.since);
}

/// Mean of the known steps; nullopt if none is known.
std::optional<double> MeanOf(const std::vector<std::optional<double>>& steps) {
  double sum = 0;
  int known = 0;
  for (const std::optional<double>& step : steps) {
    if (step) sum += *step, known += 1;
  }
  return known == 0 ? std::nullopt : std::optional(sum / known);
}

// Only teams have shares.
bool HasShares(std::string_view title) { return title == TitleOf("team"); }
bool HasShares(const wire::SharesReport& report) { return HasShares(TitleOf(report.by)); }

std::vector<Column> ShareColumns(std::string_view title) {
  std::vector<Column> columns = {{title, false, true, true},
                                 {"GPU-HOURS", true, true, false},
                                 {"MEAN", true, true, false},
                                 {"MOST", true, true, false}};
  if (HasShares(title)) columns.push_back({"SHARE", true, true, false});
  columns.push_back({"OVER TIME", false, true, true});
  return columns;
}

std::vector<std::vector<Cell>> Rows(const wire::SharesReport& report, const Numbers& numbers) {
  // Use one scale for all rows, so that they can be compared.
  double top = 0;
  for (const wire::SharesRow& row : report.rows) top = std::max(top, Most(row));
  std::vector<std::vector<Cell>> rows;
  for (const wire::SharesRow& row : report.rows) {
    Values values;
    for (const double gpus : row.gpus) values.push_back(gpus > 0 ? std::optional(gpus) : std::nullopt);
    rows.push_back({{NameOf(row.group), Colour::kBold},
                    {numbers.Hours(row.gpu_hours), Colour::kNone},
                    {Fixed(Mean(report, row), 2), Colour::kNone},
                    {Fixed(Most(row), 2), Colour::kNone}});
    if (HasShares(report)) {
      const auto share = MeanOf(row.share);
      rows.back().push_back({share ? Fixed(*share, 2) : "-", Colour::kNone});
    }
    rows.back().push_back({Sparkline(values, 0, std::max(top, 1e-9), IsAsciiLocale()), Colour::kNone});
  }
  return rows;
}

/// One row per group and step, for programs that draw curves.
std::vector<Column> StepColumns(std::string_view title) {
  std::vector<Column> columns = {{"TIME", true, true, false}, {title, false, true, false}, {"GPUS", true, true, false}};
  if (!HasShares(title)) return columns;
  for (const char* what : {"SHARE", "QUOTA", "LIMIT"}) columns.push_back({what, true, true, false});
  return columns;
}

std::vector<std::vector<Cell>> StepRows(const wire::SharesReport& report) {
  std::vector<std::vector<Cell>> rows;
  for (const wire::SharesRow& row : report.rows) {
    for (std::size_t i = 0; i < row.gpus.size(); ++i) {
      const double time = report.since + static_cast<double>(i) * report.step_s;
      rows.push_back({{Fixed(time, 0), Colour::kNone},
                      {NameOf(row.group), Colour::kNone},
                      {Fixed(row.gpus[i], 6), Colour::kNone}});
      if (!HasShares(report)) continue;
      for (const auto* steps : {&row.share, &row.quota, &row.limit}) {
        const auto value = i < steps->size() ? (*steps)[i] : std::nullopt;
        rows.back().push_back({value ? Fixed(*value, 3) : "", Colour::kNone});
      }
    }
  }
  return rows;
}

std::string NoteOf(const wire::SharesReport& report) {
  return StretchText(report.since, report.until) + ", " + InWords(report.step_s) +
         " per step. MEAN and MOST: GPUs held, including GPU fractions; MOST is the largest mean of a step." +
         (HasShares(report) ? " SHARE: mean fair share at that time." : "");
}

HtmlReport HtmlOf(const wire::SharesReport& report, std::vector<Column> columns) {
  simulate::LinePlot plot{"GPUs held over time", simulate::PlotAxis::kDate, simulate::PlotAxis::kLinear, {}};
  for (std::size_t k = 0; k < std::min(report.rows.size(), kMostCurves); ++k) {
    simulate::PlotSeries series{NameOf(report.rows[k].group), {}};
    for (std::size_t i = 0; i < report.rows[k].gpus.size(); ++i)
      series.points.emplace_back(report.since + static_cast<double>(i) * report.step_s, report.rows[k].gpus[i]);
    plot.series.push_back(std::move(series));
  }
  for (const wire::SharesRow& row : report.rows) {
    if (report.rows.size() > kMostWithShares || row.share.empty()) continue;
    simulate::PlotSeries series{NameOf(row.group) + ": fair share", {}};
    for (std::size_t i = 0; i < row.share.size(); ++i) {
      if (row.share[i])
        series.points.emplace_back(report.since + static_cast<double>(i) * report.step_s, *row.share[i]);
    }
    plot.series.push_back(std::move(series));
  }
  HtmlReport html{"GPUs held over time by " + report.by,
                  NoteOf(report),
                  "",
                  "",
                  "",
                  {},
                  std::move(columns),
                  Rows(report, kForPeople)};
  std::vector<std::string> names;
  for (const simulate::PlotSeries& series : plot.series) names.push_back(series.name);
  html.plot = simulate::Svg(plot) + simulate::Legend(names);
  return html;
}

}  // namespace

int ReportShares(const ReportFlags& flags) {
  const bool is_table = !flags.listing.json && !flags.listing.csv && !flags.is_html;
  const std::string query = ReportQuery(flags);
  const std::string path = "/v1/reports/shares" + query + (query.empty() ? "?" : "&") +
                           "points=" + std::to_string(is_table ? kSteps : kStepsOfFile);
  ReportShape<wire::SharesReport> shape{ShareColumns, Rows, NoteOf, HtmlOf};
  if (flags.listing.csv) {
    shape.columns = StepColumns;
    shape.rows = [](const wire::SharesReport& report, const Numbers&) { return StepRows(report); };
  }
  return ShowReportAt(flags, path, shape);
}

}  // namespace divvy::cli
