// divvy report waste and efficiency.
#include <algorithm>

#include "cli/reports/report_show.h"
#include "cli/reports/waste_text.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {
namespace {

template <typename Report>
std::string ShownNote(const Report& report) {
  return report.by == "job" ? CutNote(report) + " divvy show JOB suggests a better request." : "";
}

std::string Money(const std::optional<double>& cost) { return cost ? Fixed(*cost, 2) : ""; }

std::vector<Column> WasteColumns(std::string_view title) {
  std::vector<Column> columns = {{"GPU-HOURS", true, true, false},
                                 {"LOST", true, true, false},
                                 {"SHARE", true, true, false},
                                 {"AT 0%", true, true, false},
                                 {"COST", true, true, false}};
  if (title == kOfJobs) {
    columns.push_back({"FOUND", false, true, false});
    columns.push_back({"WHAT TO DO", false, true, false});
  }
  return WithNames(title, std::move(columns));
}

std::vector<std::vector<Cell>> Rows(const wire::WasteReport& report, const Numbers& numbers) {
  std::vector<std::vector<Cell>> rows;
  for (const wire::WasteRow& row : RowsShown(report, numbers)) {
    constexpr double kMuch = 0.75;
    std::vector<Cell>& cells = rows.emplace_back(NamesOf(row));
    cells.push_back({numbers.Hours(row.gpu_hours), Colour::kNone});
    cells.push_back({numbers.Hours(row.lost_gpu_hours), Colour::kNone});
    cells.push_back({numbers.Share(row.lost_share), row.lost_share > kMuch ? Colour::kYellow : Colour::kNone});
    cells.push_back({numbers.Hours(row.idle_gpu_hours), Colour::kNone});
    cells.push_back({Money(row.lost_cost), Colour::kNone});
    if (!row.job) continue;
    cells.push_back({row.findings.empty() ? "" : row.findings.front().kind, Colour::kNone});
    cells.push_back({row.findings.empty() ? "" : row.findings.front().remedy, Colour::kNone});
  }
  return rows;
}

std::string HoursNote(const wire::WasteReport& report) {
  std::string note = StretchText(report.since, report.until) + ": " + kForPeople.Hours(report.lost_gpu_hours) + " of " +
                     kForPeople.Hours(report.gpu_hours) + " GPU-hours were not used";
  if (report.lost_cost) note += ", at a cost of " + Money(report.lost_cost);
  return note + "; " + kForPeople.Hours(report.idle_gpu_hours) + " of them at exactly 0%." +
         (report.by == "job" ? ShownNote(report) : " JOBS: jobs whose GPUs were sampled.");
}

std::string WasteNote(const wire::WasteReport& report) {
  std::string note = HoursNote(report);
  const std::string line = WasteLine(report.now, [](JobId) { return true; });
  if (line.empty()) return note + (report.now.is_on ? " No running job wastes GPUs now." : "");
  note += "\n\nNow:\n";
  for (const wire::WastefulJob& job : report.now.jobs) {
    note += Paint(Colour::kBold, "job " + job.display_id) + " " + job.name + " of " + job.user + ":\n";
    for (const std::string& finding : WasteOf(report.now, job.id)) note += "  " + finding + "\n";
  }
  note.pop_back();
  return note;
}

HtmlReport HtmlOf(const wire::WasteReport& report, std::vector<Column> columns) {
  HtmlReport html{
      "GPU-hours lost by " + report.by, HoursNote(report), "GPU-hours", "not used", "used", {}, std::move(columns),
      Rows(report, kForPeople)};
  for (const wire::WasteRow& row : report.rows)
    html.bars.push_back({LabelOf(row), row.gpu_hours, row.lost_gpu_hours, kForPeople.Hours(row.lost_gpu_hours)});
  return html;
}

std::vector<Column> EfficiencyColumns(std::string_view title) {
  return WithNames(title, {{"GPU-HOURS", true, true, false},
                           {"GPU USE", true, true, false},
                           {"GPU MEMORY", true, true, false},
                           {"CORES", true, true, false},
                           {"CPU USE", true, true, false}});
}

std::vector<std::vector<Cell>> Rows(const wire::EfficiencyReport& report, const Numbers& numbers) {
  std::vector<std::vector<Cell>> rows;
  for (const wire::EfficiencyRow& row : RowsShown(report, numbers)) {
    constexpr double kLittle = 0.25;
    const auto memory = static_cast<std::int64_t>(row.memory_peak_bytes);
    std::vector<Cell>& cells = rows.emplace_back(NamesOf(row));
    cells.push_back({numbers.Hours(row.gpu_hours), Colour::kNone});
    cells.push_back({numbers.Share(row.utilization), row.utilization < kLittle ? Colour::kYellow : Colour::kNone});
    cells.push_back({numbers.is_exact ? std::to_string(memory) : dialect::FormatSize(Bytes(memory)), Colour::kNone});
    cells.push_back({Fixed(row.cpu_cores, numbers.is_exact ? 6 : 1), Colour::kNone});
    cells.push_back({row.cpu_use ? numbers.Share(*row.cpu_use) : "", Colour::kNone});
  }
  return rows;
}

std::string EfficiencyNote(const wire::EfficiencyReport& report) {
  return StretchText(report.since, report.until) + ": of " + kForPeople.Hours(report.gpu_hours) + " GPU-hours " +
         kForPeople.Share(report.utilization) +
         " were used. GPU MEMORY: peak on one GPU. CORES: mean of a job. CPU USE: share of the requested cores." +
         ShownNote(report);
}

HtmlReport HtmlOf(const wire::EfficiencyReport& report, std::vector<Column> columns) {
  HtmlReport html{
      "Use of GPUs by " + report.by, EfficiencyNote(report), "Mean use of GPUs", "", "", {}, std::move(columns),
      Rows(report, kForPeople)};
  for (const wire::EfficiencyRow& row : report.rows)
    html.bars.push_back({LabelOf(row), row.utilization, 0, kForPeople.Share(row.utilization)});
  return html;
}

}  // namespace

int ReportWaste(const ReportFlags& flags) {
  return ShowReport<wire::WasteReport>(flags, "/v1/reports/waste", {WasteColumns, Rows, WasteNote, HtmlOf});
}

int ReportEfficiency(const ReportFlags& flags) {
  return ShowReport<wire::EfficiencyReport>(flags, "/v1/reports/efficiency",
                                            {EfficiencyColumns, Rows, EfficiencyNote, HtmlOf});
}

}  // namespace divvy::cli
