#include "cli/reports/report_usage.h"

#include "wire/messages/messages_reports.h"

namespace divvy::cli {
namespace {

// For a single job, its state shows whether it runs or has failed.
std::vector<Column> UsageColumns(std::string_view title) {
  std::vector<Column> columns = {{"RUNNING", true, true, false},    {"FAILED", true, true, false},
                                 {"GPU-HOURS", true, true, false},  {"OF FAILED", true, true, false},
                                 {"SHARE", true, true, false},      {"WAIT", true, true, false},
                                 {"WAIT P95", true, true, false},   {"WAIT MEAN", true, false, false},
                                 {"NODE COST", true, false, false}, {"OF NODE", true, false, false}};
  if (title == kOfJobs) columns.erase(columns.begin(), columns.begin() + 2);
  return WithNames(title, std::move(columns));
}

void ShowCosts(const wire::UsageReport& report, std::vector<Column>& columns) {
  if (!report.nodes_cost) return;
  for (Column& column : columns)
    column.is_shown_by_default |= column.title == "NODE COST" || (report.by == "job" && column.title == "OF NODE");
}

std::vector<Cell> Row(const wire::UsageRow& row, const Numbers& numbers) {
  std::vector<Cell> cells = NamesOf(row);
  if (!row.job) {
    cells.push_back({std::to_string(row.running), Colour::kNone});
    cells.push_back({std::to_string(row.failed), row.failed > 0 ? Colour::kYellow : Colour::kNone});
  }
  const std::vector<Cell> others = {
      {numbers.Hours(row.gpu_hours), Colour::kNone},
      {numbers.Hours(row.failed_gpu_hours), Colour::kNone},
      {numbers.Share(row.share), Colour::kNone},
      {numbers.Wait(row.wait_median_s), Colour::kNone},
      {numbers.Wait(row.wait_p95_s), Colour::kNone},
      {numbers.Wait(row.wait_mean_s), Colour::kNone},
      {row.nodes_cost ? Fixed(*row.nodes_cost, 2) : numbers.Unknown(), Colour::kNone},
      {row.nodes_share ? numbers.Share(*row.nodes_share) : numbers.Unknown(), Colour::kNone}};
  cells.insert(cells.end(), others.begin(), others.end());
  return cells;
}

std::vector<Column> FairnessColumns(std::string_view title) {
  return {{title, false, true, true},      {"STARTS", true, true, false},      {"GPU-HOURS", true, true, false},
          {"SHARE", true, true, false},    {"WAIT", true, true, false},        {"LONGEST", true, true, false},
          {"SLOWDOWN", true, true, false}, {"SLOWDOWN P95", true, true, false}};
}

std::vector<Cell> Row(const wire::FairnessRow& row, const Numbers& numbers) {
  return {{row.group.empty() ? "-" : row.group, Colour::kBold}, {std::to_string(row.jobs), Colour::kNone},
          {numbers.Hours(row.gpu_hours), Colour::kNone},        {numbers.Share(row.share), Colour::kNone},
          {numbers.Wait(row.wait_median_s), Colour::kNone},     {numbers.Wait(row.wait_longest_s), Colour::kNone},
          {numbers.Times(row.slowdown_median), Colour::kNone},  {numbers.Times(row.slowdown_p95), Colour::kNone}};
}

std::string UsageNote(const wire::UsageReport& report) {
  std::string note = StretchText(report.since, report.until) + ": " + kForPeople.Hours(report.gpu_hours) + " GPU-hours";
  if (report.capacity_gpu_hours > 0) {
    note += ", " + kForPeople.Share(report.gpu_hours / report.capacity_gpu_hours) + " of the " +
            kForPeople.Hours(report.capacity_gpu_hours) + " that the current GPUs provided";
  }
  if (report.nodes_cost) {
    note += ". Nodes of providers cost " + Fixed(*report.nodes_cost, 2);
    if (report.unused_nodes_cost) note += ", of which " + Fixed(*report.unused_nodes_cost, 2) + " belong to no job";
    note += ". NODE COST: the jobs' part, by their GPUs";
  }
  if (report.by == "job")
    return note + ". OF FAILED: GPU-hours of runs that failed, timed out or were lost; the largest come first." +
           CutNote(report);
  return note +
         ". JOBS: jobs that ran or waited; for an array, its elements that have started. WAIT: median wait of jobs "
         "that started.";
}

std::string FairnessNote(const wire::FairnessReport& report) {
  return StretchText(report.since, report.until) + ". Evenness (1: all equal): of GPU-hours " +
         Fixed(report.evenness_of_share, 2) + ", of slowdowns " + Fixed(report.evenness_of_slowdown, 2) +
         ". SLOWDOWN: median ratio of wait plus run time to run time.";
}

template <typename Report>
std::vector<std::vector<Cell>> Rows(const Report& report, const Numbers& numbers) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& row : RowsShown(report, numbers)) rows.push_back(Row(row, numbers));
  return rows;
}

HtmlReport HtmlOf(const wire::UsageReport& report, std::vector<Column> columns) {
  HtmlReport html{"GPU-hours by " + report.by, UsageNote(report),       "GPU-hours", "of failed runs", "of others", {},
                  std::move(columns),          Rows(report, kForPeople)};
  for (const wire::UsageRow& row : report.rows)
    html.bars.push_back({LabelOf(row), row.gpu_hours, row.failed_gpu_hours, kForPeople.Hours(row.gpu_hours)});
  return html;
}

HtmlReport HtmlOf(const wire::FairnessReport& report, std::vector<Column> columns) {
  HtmlReport html{"Waiting by " + report.by, FairnessNote(report),    "Median slowdown", "", "", {},
                  std::move(columns),        Rows(report, kForPeople)};
  for (const wire::FairnessRow& row : report.rows)
    html.bars.push_back(
        {row.group.empty() ? "-" : row.group, row.slowdown_median, 0, kForPeople.Times(row.slowdown_median)});
  return html;
}

}  // namespace

int ReportUsage(const ReportFlags& flags) {
  return ShowReport<wire::UsageReport>(
      flags, "/v1/reports/usage",
      {.columns = UsageColumns, .rows = Rows, .note = UsageNote, .html = HtmlOf, .show_columns = ShowCosts});
}

int ReportFairness(const ReportFlags& flags) {
  return ShowReport<wire::FairnessReport>(flags, "/v1/reports/fairness", {FairnessColumns, Rows, FairnessNote, HtmlOf});
}

}  // namespace divvy::cli
