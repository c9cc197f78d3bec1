// Presentation of replays: one or several runs side by side, as a table, JSON, CSV and one self-contained page
// (report_html.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/growth_totals.h"
#include "simulate/metrics.h"
#include "simulate/replay.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

/// `workload` must outlive the run.
struct PolicyRun {
  std::string policy;  // Its label, unique within a report.
  const Workload* workload = nullptr;
  TraceCluster cluster;
  Replayed replayed;
  RunMetrics metrics;
  std::optional<GrowthTotals> growth = std::nullopt;  // Set if nodes came from providers.
};

struct Report {
  std::string title;               // "helios venus_gpu_jobs.csv.gz".
  std::vector<std::string> notes;  // Shown below the metrics.
  std::vector<PolicyRun> runs;     // At least one.
};

/// Seconds, percentages and counts keep their unit until they are formatted.
struct GridCell {
  enum class Unit { kText, kSeconds, kPercent, kCount, kNumber };
  Unit unit = Unit::kText;
  std::string text;
  double value = 0;
};

struct GridColumn {
  std::string title;  // For people: "MEAN JCT".
  std::string key;    // For programs: "jct_mean_seconds".
  /// Which value is better when runs are compared: 1 the higher, -1 the lower, 0 neither.
  int better = 0;
};

struct Grid {
  std::vector<GridColumn> columns;
  std::vector<std::vector<GridCell>> rows;
};

/// Returns the cell's value as a text for people: "4.6 h", "81.3 %", "24,171".
std::string Shown(const GridCell& cell);
/// Returns the cell's value as a text for programs: a plain decimal number.
std::string Plain(const GridCell& cell);

/// Returns a table with one row per simulated run. If nodes were requested from providers, it has their cost and
/// number, and how long jobs waited.
Grid SummaryGrid(const Report& report);
/// Returns a table with one row per group of jobs (such as a size) and run. `title` and `key` name the first column,
/// for people and for programs: "SIZE", "size".
Grid GroupGrid(const Report& report, RunMetrics::Groups RunMetrics::*groups, std::string title, std::string key);
/// Returns a table with one row for each job that ended in each simulated run.
Grid JobGrid(const Report& report);

/// Returns the table as text with aligned columns, for a terminal of `width` characters. Columns that do not fit follow
/// in further tables, which repeat the columns that name the rows. Width 0: all columns in one table.
std::string GridText(const Grid& grid, std::size_t width = 0);
std::string GridCsv(const Grid& grid);
/// Returns the report as one JSON object: title, notes, and for each run all metrics, the groups of jobs, and the load
/// over time with a limited number of points.
std::string ReportJson(const Report& report);

}  // namespace divvy::simulate
