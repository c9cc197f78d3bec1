// divvy report: what the history of this server says.
#include <cstdio>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/report_usage.h"
#include "cli/table.h"
#include "wire/codec.h"
#include "wire/messages_teams.h"

namespace divvy::cli {
namespace {

using dialect::Option;

const std::vector<Column>& Columns() {
  static const std::vector<Column> columns = {{"USER", false, true, false},     {"JOBS", true, true, false},
                                              {"PREDICTED", true, true, false}, {"MEDIAN", true, true, false},
                                              {"WITHIN 2x", true, true, false}, {"IN INTERVAL", true, true, false}};
  return columns;
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%%", share * 100);
  return text;
}

std::string Times(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", ratio);
  return text;
}

std::vector<Cell> Row(const wire::PredictionRow& row) {
  const bool has_any = row.predicted > 0;
  return {{row.user.empty() ? "all" : row.user, row.user.empty() ? Colour::kBold : Colour::kNone},
          {std::to_string(row.predicted + row.unpredicted), Colour::kNone},
          {std::to_string(row.predicted), Colour::kNone},
          {has_any ? Times(row.median_ratio) : "-", Colour::kNone},
          {has_any ? Percent(row.within_factor_two) : "-", Colour::kNone},
          {has_any ? Percent(row.inside_interval) : "-", Colour::kNone}};
}

int Predictions(const ListingOptions& listing) {
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string json, api.Raw("GET", "/v1/reports/predictions", ""));
    if (listing.json) return json + "\n";
    DIVVY_TRY(const wire::PredictionsReport report, wire::Decode<wire::PredictionsReport>(json));
    if (report.jobs == 0 && !listing.csv)
      return std::string("No job has run to its end here yet; there is nothing to measure.\n");
    std::vector<std::vector<Cell>> rows;
    for (const wire::PredictionRow& row : report.rows) rows.push_back(Row(row));
    DIVVY_TRY(std::string text, RenderTable(Columns(), rows, listing));
    if (!listing.csv)
      text += "MEDIAN: actual run time to predicted. IN INTERVAL: ended within the interval in which 8 of 10 should.\n";
    return text;
  });
}

const std::vector<Column>& SpeedColumns() {
  static const std::vector<Column> columns = {{"USER", false, true, false}, {"NAME", false, true, true},
                                              {"GPUS", true, true, false},  {"MODEL", false, true, true},
                                              {"SPEED", true, true, false}, {"RUNS", true, true, false},
                                              {"BY", false, true, false},   {"COMMAND", false, false, true}};
  return columns;
}

std::vector<Cell> Row(const wire::SpeedRow& row) {
  char speed[32];
  std::snprintf(speed, sizeof speed, "%.3g", row.speed);
  return {{row.user, Colour::kNone},
          {row.name, Colour::kBold},
          {std::to_string(row.gpus), Colour::kNone},
          {row.model, Colour::kNone},
          {row.speed > 0 ? speed : "-", Colour::kNone},
          {std::to_string(row.runs), Colour::kNone},
          {row.by, Colour::kDim},
          {row.command, Colour::kNone}};
}

int Speeds(const ListingOptions& listing) {
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string json, api.Raw("GET", "/v1/reports/speeds", ""));
    if (listing.json) return json + "\n";
    DIVVY_TRY(const wire::SpeedsReport report, wire::Decode<wire::SpeedsReport>(json));
    if (report.rows.empty() && !listing.csv)
      return std::string("No kind of job has run on several GPU models here; there is nothing to compare.\n");
    std::vector<std::vector<Cell>> rows;
    for (const wire::SpeedRow& row : report.rows) rows.push_back(Row(row));
    DIVVY_TRY(std::string text, RenderTable(SpeedColumns(), rows, listing));
    if (!listing.csv)
      text += "SPEED: of the fastest model's; known with " + std::to_string(report.runs_needed) +
              " runs on each of two models.\n";
    return text;
  });
}

}  // namespace

std::vector<Option> ReportOptions() {
  static ReportFlags scratch;
  return ReportOptionTable(scratch);
}

int ReportMain(const Words& words) {
  ReportFlags flags;
  const auto parsed = dialect::ParseOptions(ReportOptionTable(flags), words);
  if (!parsed) return Fail(parsed.error());
  const Status is_one =
      OneForm({{"--json", flags.listing.json}, {"--csv", flags.listing.csv}, {"--html", flags.is_html}});
  if (!is_one) return Fail(is_one.error());
  const Words& what = parsed->positional;
  if (what == Words{"usage"}) return ReportUsage(flags);
  if (what == Words{"fairness"}) return ReportFairness(flags);
  if (what == Words{"waste"}) return ReportWaste(flags);
  if (what == Words{"efficiency"}) return ReportEfficiency(flags);
  if (what == Words{"shares"}) return ReportShares(flags);
  if (what != Words{"predictions"} && what != Words{"speeds"})
    return Fail(
        InvalidArgument("write: divvy report usage, shares, waste, efficiency, fairness, predictions or speeds"));
  if (flags.has_stretch())
    return Fail(InvalidArgument(
        "--by, --since, --until and --html are of divvy report usage, shares, waste, efficiency and fairness"));
  return what == Words{"speeds"} ? Speeds(flags.listing) : Predictions(flags.listing);
}

}  // namespace divvy::cli
