#include "simulate/report.h"

#include <algorithm>

#include "simulate/report_text.h"

namespace divvy::simulate {
namespace {

using Unit = GridCell::Unit;

GridCell Word(std::string text) { return {Unit::kText, std::move(text), 0}; }
GridCell Seconds(double value) { return {Unit::kSeconds, {}, value}; }
GridCell Percent(double value) { return {Unit::kPercent, {}, value}; }
GridCell Count(double value) { return {Unit::kCount, {}, value}; }
GridCell Number(double value) { return {Unit::kNumber, {}, value}; }

bool AnyPreempted(const Report& report) {
  return std::ranges::any_of(report.runs, [](const PolicyRun& run) { return run.metrics.all.preemptions > 0; });
}

/// Adds the separator before each item except the first.
class Items {
 public:
  explicit Items(std::string& out, std::string_view separator = ", ") : out_(out), separator_(separator) {}
  std::string& Next() {
    if (!is_first_) out_ += separator_;
    is_first_ = false;
    return out_;
  }
  std::string& Key(std::string_view name) { return Next() += JsonString(name) + ": "; }

 private:
  std::string& out_;
  std::string_view separator_;
  bool is_first_ = true;
};

std::string Json(double value) { return Decimals(value, 4); }

std::string Json(const Spread& spread) {
  return "{\"mean\": " + Json(spread.mean) + ", \"median\": " + Json(spread.median) + ", \"p90\": " + Json(spread.p90) +
         ", \"p99\": " + Json(spread.p99) + ", \"max\": " + Json(spread.max) + "}";
}

std::string Json(const Figures& figures) {
  return "{\"jobs\": " + std::to_string(figures.jobs) + ", \"gpu_hours\": " + Json(figures.gpu_hours) +
         ", \"preemptions\": " + std::to_string(figures.preemptions) +
         ", \"jct_seconds\": " + Json(figures.jct_seconds) + ", \"wait_seconds\": " + Json(figures.wait_seconds) +
         ", \"slowdown\": " + Json(figures.slowdown) + ", \"rho\": " + Json(figures.rho) +
         ", \"unfair_percent\": " + Json(figures.unfair_percent) +
         ", \"first_start_seconds\": " + Json(figures.first_start_seconds) +
         ", \"lost_seconds\": " + Json(figures.lost_seconds) +
         ", \"bounded_slowdown\": " + Json(figures.bounded_slowdown) + "}";
}

std::string Json(const RunMetrics::Groups& groups) {
  std::string out = "{";
  Items items(out);
  for (const auto& [name, figures] : groups) items.Key(name) += Json(figures);
  return out + "}";
}

std::string Json(const ContractFigures& contract) {
  return "{\"jobs_settled\": " + std::to_string(contract.jobs_settled) +
         ", \"jobs_above\": " + std::to_string(contract.jobs_above) +
         ", \"worst_excess_seconds\": " + Json(contract.worst_excess_seconds) +
         ", \"settled_gpu_hours\": " + Json(contract.settled_gpu_hours) +
         ", \"unsettled_gpu_hours\": " + Json(contract.unsettled_gpu_hours) + "}";
}

std::string Json(const LoadSeries& load) {
  std::string out = "[";
  Items items(out);
  for (const LoadSeries::Point& point : load.Points()) {
    items.Next() += "[" + Decimals(ToSeconds(point.begin), 0) + ", " + Decimals(point.mean.allocated_gpus, 2) + ", " +
                    Decimals(point.mean.waiting_jobs, 2) + ", " + Decimals(point.mean.waiting_gpus, 2) + ", " +
                    Decimals(point.mean.running_jobs, 2) + "]";
  }
  return out + "]";
}

std::string Json(const GrowthTotals& growth) {
  std::string out = "{";
  Items items(out);
  items.Key("cost") += Json(growth.cost.units());
  items.Key("nodes_requested") += std::to_string(growth.nodes_requested);
  items.Key("most_nodes") += std::to_string(growth.most_nodes);
  items.Key("node_hours") += Json(growth.node_hours);
  items.Key("startup_node_hours") += Json(growth.startup_node_hours);
  items.Key("idle_node_hours") += Json(growth.idle_node_hours);
  items.Key("gpu_hours") += Json(growth.gpu_hours);
  items.Key("decisions") += std::to_string(growth.growth_decisions);
  items.Key("decide_cpu_seconds") += Json(growth.decide_cpu_seconds);
  items.Key("slowest_decision_ms") += Json(growth.slowest_decision_ms);
  items.Key("nodes") += "[";
  Items nodes(out);
  for (const auto& [time, count] : growth.nodes)
    nodes.Next() += "[" + Decimals(ToSeconds(time), 0) + ", " + std::to_string(count) + "]";
  return out + "]}";
}

std::string Json(const PolicyRun& run) {
  const RunMetrics& metrics = run.metrics;
  std::string out = "{";
  Items items(out, ",\n   ");
  items.Key("policy") += JsonString(run.policy);
  items.Key("nodes") += std::to_string(run.cluster.nodes());
  items.Key("gpus") += std::to_string(run.cluster.gpus());
  items.Key("jobs_unfinished") += std::to_string(metrics.unfinished);
  items.Key("makespan_seconds") += Json(metrics.makespan_seconds);
  items.Key("allocation_percent") += Json(metrics.allocation_percent);
  items.Key("allocation_while_waiting_percent") += Json(metrics.allocation_while_waiting_percent);
  items.Key("utilisation_percent") += Json(metrics.utilisation_percent);
  items.Key("fragmentation_percent") += Json(metrics.fragmentation_percent);
  items.Key("decisions") += std::to_string(run.replayed.decisions);
  items.Key("decide_cpu_seconds") += Json(run.replayed.decide_cpu_seconds);
  if (run.growth) items.Key("growth") += Json(*run.growth);
  items.Key("all") += Json(metrics.all);
  items.Key("largest_tenth") += Json(metrics.largest_tenth);
  items.Key("longest_tenth") += Json(metrics.longest_tenth);
  if (run.replayed.contract) items.Key("contract") += Json(*run.replayed.contract);
  items.Key("by_team") += Json(metrics.by_team);
  items.Key("by_size") += Json(metrics.by_size);
  items.Key("by_hour") += Json(metrics.by_hour);
  items.Key("load_columns") +=
      "[\"seconds\", \"allocated_gpus\", \"waiting_jobs\", \"waiting_gpus\", \"running_jobs\"]";
  items.Key("load") += Json(run.replayed.load);
  return out + "}";
}

void AddFigures(const Figures& figures, std::vector<GridCell>& row) {
  row.push_back(Count(static_cast<double>(figures.jobs)));
  row.push_back(Seconds(figures.jct_seconds.mean));
  row.push_back(Seconds(figures.jct_seconds.median));
  row.push_back(Seconds(figures.jct_seconds.p99));
  row.push_back(Seconds(figures.wait_seconds.mean));
  row.push_back(Seconds(figures.wait_seconds.p99));
  row.push_back(Seconds(figures.wait_seconds.max));
  row.push_back(Number(figures.slowdown.mean));
  row.push_back(Number(figures.rho.max));
  row.push_back(Percent(figures.unfair_percent));
}

std::vector<GridColumn> FigureColumns() {
  return {{"JOBS", "jobs", 0},
          {"MEAN JCT", "jct_mean_seconds", -1},
          {"MEDIAN", "jct_median_seconds", -1},
          {"P99", "jct_p99_seconds", -1},
          {"MEAN WAIT", "wait_mean_seconds", -1},
          {"P99 WAIT", "wait_p99_seconds", -1},
          {"LONGEST", "wait_max_seconds", -1},
          {"SLOWDOWN", "slowdown_mean", -1},
          {"WORST RHO", "rho_max", -1},
          {"UNFAIR", "unfair_percent", -1}};
}

/// With providers: what they cost, and what that bought.
Grid GrowthGrid(const Report& report) {
  Grid grid;
  grid.columns = {{"POLICY", "policy", 0},
                  {"COST", "cost", -1},
                  {"MEAN WAIT", "wait_mean_seconds", -1},
                  {"P99 WAIT", "wait_p99_seconds", -1},
                  {"MEAN JCT", "jct_mean_seconds", -1},
                  {"REQUESTED", "nodes_requested", 0},
                  {"MOST", "most_nodes", 0},
                  {"NODE HOURS", "node_hours", 0},
                  {"STARTING", "startup_node_hours", -1},
                  {"IDLE", "idle_node_hours", -1},
                  {"GPU HOURS", "gpu_hours", 0},
                  {"UNFINISHED", "jobs_unfinished", -1}};
  for (const PolicyRun& run : report.runs) {
    const GrowthTotals growth = run.growth.value_or(GrowthTotals());
    const Spread& wait = run.metrics.all.wait_seconds;
    grid.rows.push_back({Word(run.policy), Count(growth.cost.units()), Seconds(wait.mean), Seconds(wait.p99),
                         Seconds(run.metrics.all.jct_seconds.mean), Count(static_cast<double>(growth.nodes_requested)),
                         Count(static_cast<double>(growth.most_nodes)), Count(growth.node_hours),
                         Count(growth.startup_node_hours), Count(growth.idle_node_hours), Count(growth.gpu_hours),
                         Count(static_cast<double>(run.metrics.unfinished))});
  }
  return grid;
}

bool HasGrowth(const Report& report) {
  return std::ranges::any_of(report.runs, [](const PolicyRun& run) { return run.growth.has_value(); });
}

}  // namespace

std::string Shown(const GridCell& cell) {
  switch (cell.unit) {
    case Unit::kText:
      return cell.text;
    case Unit::kSeconds:
      return ShortSeconds(cell.value);
    case Unit::kPercent:
      return Decimals(cell.value, 1) + " %";
    case Unit::kCount:
      return Grouped(cell.value);
    case Unit::kNumber:
      return cell.value < 1000 ? Decimals(cell.value, 2) : Grouped(cell.value);
  }
  return {};
}

std::string Plain(const GridCell& cell) {
  switch (cell.unit) {
    case Unit::kText:
      return cell.text;
    case Unit::kCount:
      return Decimals(cell.value, 0);
    case Unit::kSeconds:
    case Unit::kPercent:
    case Unit::kNumber:
      return Decimals(cell.value, 3);
  }
  return {};
}

Grid SummaryGrid(const Report& report) {
  if (HasGrowth(report)) return GrowthGrid(report);
  Grid grid;
  grid.columns = FigureColumns();
  grid.columns.insert(grid.columns.begin(), GridColumn{"POLICY", "policy", 0});
  grid.columns.push_back({"P99 WAIT WIDEST", "wait_p99_seconds_largest_tenth", -1});
  grid.columns.push_back({"ALLOCATED", "allocation_percent", 1});
  grid.columns.push_back({"WHILE WAITING", "allocation_while_waiting_percent", 1});
  grid.columns.push_back({"MAKESPAN", "makespan_seconds", -1});
  grid.columns.push_back({"UNFINISHED", "jobs_unfinished", -1});
  const bool has_preemptions = AnyPreempted(report);
  if (has_preemptions) grid.columns.push_back({"UTILISED", "utilisation_percent", 1});
  if (has_preemptions) grid.columns.push_back({"PREEMPTIONS", "preemptions", 0});
  for (const PolicyRun& run : report.runs) {
    std::vector<GridCell> row = {Word(run.policy)};
    AddFigures(run.metrics.all, row);
    row.push_back(Seconds(run.metrics.largest_tenth.wait_seconds.p99));
    row.push_back(Percent(run.metrics.allocation_percent));
    row.push_back(Percent(run.metrics.allocation_while_waiting_percent));
    row.push_back(Seconds(run.metrics.makespan_seconds));
    row.push_back(Count(static_cast<double>(run.metrics.unfinished)));
    if (has_preemptions) row.push_back(Percent(run.metrics.utilisation_percent));
    if (has_preemptions) row.push_back(Count(static_cast<double>(run.metrics.all.preemptions)));
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

Grid GroupGrid(const Report& report, RunMetrics::Groups RunMetrics::*groups, std::string title, std::string key) {
  Grid grid;
  grid.columns = FigureColumns();
  grid.columns.insert(grid.columns.begin(), {{std::move(title), std::move(key), 0}, {"POLICY", "policy", 0}});
  // The group names of all runs, in the order of the first run that has them.
  std::vector<std::string> names;
  for (const PolicyRun& run : report.runs) {
    for (const auto& group : run.metrics.*groups) {
      if (std::ranges::find(names, group.first) == names.end()) names.push_back(group.first);
    }
  }
  for (const std::string& name : names) {
    for (const PolicyRun& run : report.runs) {
      const auto& all = run.metrics.*groups;
      const auto group = std::ranges::find(all, name, &RunMetrics::Groups::value_type::first);
      if (group == all.end()) continue;
      std::vector<GridCell> row = {Word(name), Word(run.policy)};
      AddFigures(group->second, row);
      grid.rows.push_back(std::move(row));
    }
  }
  return grid;
}

Grid JobGrid(const Report& report) {
  Grid grid;
  grid.columns = {{"POLICY", "policy", 0},
                  {"JOB", "job", 0},
                  {"USER", "user", 0},
                  {"TEAM", "team", 0},
                  {"GPUS", "gpus", 0},
                  {"SUBMITTED", "submit_seconds", 0},
                  {"STARTED", "start_seconds", 0},
                  {"ENDED", "end_seconds", 0},
                  {"RUN TIME", "runtime_seconds", 0},
                  {"JCT", "jct_seconds", 0},
                  {"WAIT", "wait_seconds", 0},
                  {"SLOWDOWN", "slowdown", 0},
                  {"RHO", "rho", 0},
                  {"GPU SECONDS", "gpu_seconds", 0},
                  {"PREEMPTIONS", "preemptions", 0}};
  for (const PolicyRun& run : report.runs) {
    for (std::size_t i = 0; i < run.replayed.outcomes.size(); ++i) {
      const Outcome& outcome = run.replayed.outcomes[i];
      const TraceJob& job = run.workload->jobs[outcome.job];
      const JobFigures& figures = run.metrics.jobs[i];
      const double gpus = static_cast<double>(job.gpus) * job.share.ten_thousandths() / GpuShare::kWhole;
      grid.rows.push_back({Word(run.policy), Word(job.id), Word(job.user), Word(job.team), Number(gpus),
                           Seconds(ToSeconds(outcome.submit)), Seconds(ToSeconds(outcome.first_start)),
                           Seconds(ToSeconds(outcome.end)), Seconds(ToSeconds(job.runtime)),
                           Seconds(figures.jct_seconds), Seconds(figures.wait_seconds), Number(figures.slowdown),
                           Number(figures.rho), Number(outcome.gpu_seconds),
                           Count(static_cast<double>(outcome.preemptions))});
    }
  }
  return grid;
}

std::string GridText(const Grid& grid, std::size_t width) {
  constexpr std::size_t kGap = 2;
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < grid.columns.size(); ++i) {
    widths.push_back(grid.columns[i].title.size());
    for (const auto& row : grid.rows) widths[i] = std::max(widths[i], Shown(row[i]).size());
  }
  const auto is_word = [&](std::size_t i) { return !grid.rows.empty() && grid.rows.front()[i].unit == Unit::kText; };
  // Columns that name a row are repeated in each table.
  std::vector<std::size_t> names;
  std::size_t name_width = 0;
  for (std::size_t i = 0; i < widths.size() && is_word(i); ++i) {
    names.push_back(i);
    name_width += widths[i] + kGap;
  }
  std::string out;
  const auto line = [&](const std::vector<std::size_t>& columns, auto&& text_of) {
    std::string text;
    for (const std::size_t i : columns) {
      const std::string cell = text_of(i);
      const std::string padding(widths[i] - cell.size(), ' ');
      text += (text.empty() ? "" : std::string(kGap, ' ')) + (is_word(i) ? cell + padding : padding + cell);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  std::size_t next = names.size();
  do {
    std::vector<std::size_t> columns = names;
    for (std::size_t used = name_width; next < widths.size(); ++next) {
      const bool has_room = width == 0 || columns.size() == names.size() || used + widths[next] <= width;
      if (!has_room) break;
      used += widths[next] + kGap;
      columns.push_back(next);
    }
    out += out.empty() ? "" : "\n";
    line(columns, [&](std::size_t i) { return grid.columns[i].title; });
    for (const auto& row : grid.rows) line(columns, [&](std::size_t i) { return Shown(row[i]); });
  } while (next < widths.size());
  return out;
}

std::string GridCsv(const Grid& grid) {
  std::string out;
  for (std::size_t i = 0; i < grid.columns.size(); ++i) out += (i == 0 ? "" : ",") + CsvField(grid.columns[i].key);
  out += "\n";
  for (const auto& row : grid.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) out += (i == 0 ? "" : ",") + CsvField(Plain(row[i]));
    out += "\n";
  }
  return out;
}

std::string ReportJson(const Report& report) {
  std::string out = "{\"title\": " + JsonString(report.title) + ",\n \"notes\": [";
  Items notes(out);
  for (const std::string& note : report.notes) notes.Next() += JsonString(note);
  out += "],\n \"runs\": [\n  ";
  Items runs(out, ",\n  ");
  for (const PolicyRun& run : report.runs) runs.Next() += Json(run);
  return out + "]}\n";
}

}  // namespace divvy::simulate
