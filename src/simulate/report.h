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

/// For people: "4.6 h", "81.3 %", "24,171".
std::string Shown(const GridCell& cell);
/// For programs: plain decimals.
std::string Plain(const GridCell& cell);

/// One row per run. With providers: their cost and nodes, and the waits.
Grid SummaryGrid(const Report& report);
/// One row per group and run. `title` and `key` name the first column: "SIZE", "size".
Grid GroupGrid(const Report& report, RunMetrics::Groups RunMetrics::*groups, std::string title, std::string key);
/// One row per run and ended job.
Grid JobGrid(const Report& report);

/// Aligned columns for a terminal of this `width`. Columns that do not fit follow in further tables, each with the
/// columns that name its rows. 0: all columns in one table.
std::string GridText(const Grid& grid, std::size_t width = 0);
std::string GridCsv(const Grid& grid);
/// One JSON object: title, notes, and for each run all metrics, groups and the thinned load over time.
std::string ReportJson(const Report& report);

}  // namespace divvy::simulate
