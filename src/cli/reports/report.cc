// divvy report: reports from this server's history.
#include <cstdio>

#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "cli/reports/report_usage.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli {
namespace {

using dialect::Option;

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
    DIVVY_TRY(const wire::SpeedsReport report, DecodeShown<wire::SpeedsReport>(json));
    if (report.rows.empty() && !listing.csv)
      return std::string("No similar jobs have run on several GPU models here, so there is nothing to compare.\n");
    std::vector<std::vector<Cell>> rows;
    for (const wire::SpeedRow& row : report.rows) rows.push_back(Row(row));
    DIVVY_TRY(std::string text, RenderTable(SpeedColumns(), rows, listing));
    if (!listing.csv)
      text += "SPEED: relative to the fastest model; known after " + std::to_string(report.runs_needed) +
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
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(ReportOptionTable(flags), words));
  const Status is_one =
      OneForm({{"--json", flags.listing.json}, {"--csv", flags.listing.csv}, {"--html", flags.is_html}});
  if (!is_one) return Fail(is_one.error());
  const Words& what = parsed.positional;
  if (what == Words{"usage"}) return ReportUsage(flags);
  if (what == Words{"fairness"}) return ReportFairness(flags);
  if (what == Words{"waste"}) return ReportWaste(flags);
  if (what == Words{"efficiency"}) return ReportEfficiency(flags);
  if (what == Words{"shares"}) return ReportShares(flags);
  if (what == Words{"predictions"}) return ReportPredictions(flags);
  if (what != Words{"speeds"})
    return Fail(InvalidArgument(
        "name a report: divvy report usage, shares, waste, efficiency, fairness, predictions or speeds"));
  if (flags.has_stretch())
    return Fail(
        InvalidArgument("divvy report speeds uses all runs, so --by, --since, --until and --html do not apply; they "
                        "work with usage, shares, waste, efficiency, fairness and predictions"));
  return Speeds(flags.listing);
}

}  // namespace divvy::cli
