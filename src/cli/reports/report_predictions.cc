// divvy report predictions.
#include "cli/reports/report_show.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli {
namespace {

std::string NameOf(const wire::PredictionRow& row) {
  if (row.is_all) return "all";
  return row.group.empty() ? "-" : row.group;
}

std::vector<Column> PredictionColumns(std::string_view title) {
  return {{title, false, true, true},    {"JOBS", true, true, false},      {"PREDICTED", true, true, false},
          {"MEDIAN", true, true, false}, {"WITHIN 2x", true, true, false}, {"IN INTERVAL", true, true, false},
          {"IS_ALL", false, false}};
}

std::vector<std::vector<Cell>> Rows(const wire::PredictionsReport& report, const Numbers& numbers) {
  std::vector<std::vector<Cell>> rows;
  for (const wire::PredictionRow& row : report.rows) {
    const auto share = [&](const std::optional<double>& value) {
      return value ? numbers.Share(*value) : numbers.Unknown();
    };
    rows.push_back({{NameOf(row), row.is_all ? Colour::kBold : Colour::kNone},
                    {std::to_string(row.predicted + row.unpredicted), Colour::kNone},
                    {std::to_string(row.predicted), Colour::kNone},
                    {row.median_ratio ? numbers.Times(*row.median_ratio) : numbers.Unknown(), Colour::kNone},
                    {share(row.within_factor_two), Colour::kNone},
                    {share(row.inside_interval), Colour::kNone},
                    // Needed because a user may be called "all".
                    {row.is_all ? "true" : "false", Colour::kNone}});
  }
  return rows;
}

std::string NoteOf(const wire::PredictionsReport& report) {
  return StretchText(report.since, report.until) +
         ". JOBS: jobs that ended in that period. MEDIAN: ratio of actual to predicted run time. IN INTERVAL: jobs "
         "that ended within the predicted 80% interval.";
}

HtmlReport HtmlOf(const wire::PredictionsReport& report, std::vector<Column> columns) {
  columns.pop_back();  // The text table shows that row differently.
  HtmlReport html{"Predictions of run times by " + report.by,
                  NoteOf(report),
                  "Within a factor of 2 of the prediction",
                  "",
                  "",
                  {},
                  std::move(columns),
                  Rows(report, kForPeople)};
  for (std::vector<Cell>& row : html.rows) row.pop_back();
  for (const wire::PredictionRow& row : report.rows) {
    if (row.within_factor_two)
      html.bars.push_back({NameOf(row), *row.within_factor_two, 0, kForPeople.Share(*row.within_factor_two)});
  }
  return html;
}

}  // namespace

int ReportPredictions(const ReportFlags& flags) {
  ReportShape<wire::PredictionsReport> shape{PredictionColumns, Rows, NoteOf, HtmlOf};
  shape.is_empty = [](const wire::PredictionsReport& report) { return report.jobs == 0; };
  return ShowReport<wire::PredictionsReport>(flags, "/v1/reports/predictions", shape);
}

}  // namespace divvy::cli
