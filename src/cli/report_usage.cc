#include "cli/report_usage.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "base/text.h"
#include "cli/api.h"
#include "cli/command.h"
#include "cli/job_text.h"
#include "cli/report_html.h"
#include "wire/codec.h"
#include "wire/http.h"
#include "wire/messages_reports.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// Numbers as people read them, or, for programs (CSV), as they are: hours, parts of one, seconds.
struct Numbers {
  bool is_exact = false;

  std::string Hours(double hours) const { return Fixed(hours, is_exact ? 6 : hours > 0 && hours < 0.995 ? 3 : 1); }
  std::string Share(double share) const {
    if (!is_exact && share > 0 && share < 0.0005) return "<0.1%";
    return is_exact ? Fixed(share, 6) : Fixed(share * 100, share > 0 && share < 0.0995 ? 1 : 0) + "%";
  }
  std::string Wait(double seconds) const { return is_exact ? Fixed(seconds, 3) : InWords(seconds); }
  std::string Times(double ratio) const { return is_exact ? Fixed(ratio, 6) : Fixed(ratio, 2) + "x"; }
};
constexpr Numbers kForPeople = {};

/// "since=..&until=..&by=..", as far as they were given.
std::string Query(const ReportFlags& flags) {
  std::string out;
  const auto add = [&](std::string_view name, const std::string& value) {
    out += (out.empty() ? "?" : "&") + std::string(name) + "=" + PercentEncode(value);
  };
  if (!flags.by.empty()) add("by", flags.by);
  if (flags.since) add("since", Fixed(*flags.since, 3));
  if (flags.until) add("until", Fixed(*flags.until, 3));
  return out;
}

/// The first column's: "USER".
std::string Title(std::string by) {
  std::ranges::transform(by, by.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return by;
}

/// "2026-03-01 16:00 to 2026-03-08 16:00".
std::string Stretch(double since, double until) { return DayAndTime(since) + " to " + DayAndTime(until); }

constexpr std::string_view kIsCut =
    "More runs lie in that time than are read at once (100,000): the oldest are not in it; ask for less with --since.";

std::vector<Column> UsageColumns(std::string_view title) {
  return {{title, false, true, true},       {"JOBS", true, true, false},      {"RUNNING", true, true, false},
          {"FAILED", true, true, false},    {"GPU-HOURS", true, true, false}, {"OF FAILED", true, true, false},
          {"SHARE", true, true, false},     {"WAIT", true, true, false},      {"WAIT P95", true, true, false},
          {"WAIT MEAN", true, false, false}};
}

std::vector<Cell> Row(const wire::UsageRow& row, const Numbers& numbers) {
  return {{row.group.empty() ? "-" : row.group, Colour::kBold},
          {std::to_string(row.jobs), Colour::kNone},
          {std::to_string(row.running), Colour::kNone},
          {std::to_string(row.failed), row.failed > 0 ? Colour::kYellow : Colour::kNone},
          {numbers.Hours(row.gpu_hours), Colour::kNone},
          {numbers.Hours(row.failed_gpu_hours), Colour::kNone},
          {numbers.Share(row.share), Colour::kNone},
          {numbers.Wait(row.wait_median_s), Colour::kNone},
          {numbers.Wait(row.wait_p95_s), Colour::kNone},
          {numbers.Wait(row.wait_mean_s), Colour::kNone}};
}

std::vector<Column> FairnessColumns(std::string_view title) {
  return {{title, false, true, true},      {"JOBS", true, true, false},        {"GPU-HOURS", true, true, false},
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
  std::string note = Stretch(report.since, report.until) + ": " + kForPeople.Hours(report.gpu_hours) + " GPU-hours";
  if (report.capacity_gpu_hours > 0) {
    note += ", " + kForPeople.Share(report.gpu_hours / report.capacity_gpu_hours) + " of the " +
            kForPeople.Hours(report.capacity_gpu_hours) + " that the GPUs which are here now had";
  }
  return note + ". WAIT: half of the jobs waited less.";
}

std::string FairnessNote(const wire::FairnessReport& report) {
  return Stretch(report.since, report.until) + ". Evenness (1: all alike): of GPU-hours " +
         Fixed(report.evenness_of_share, 2) + ", of slowdowns " + Fixed(report.evenness_of_slowdown, 2) +
         ". SLOWDOWN: waiting and running to running alone, the median.";
}

template <typename Report>
std::vector<std::vector<Cell>> Rows(const Report& report, const Numbers& numbers) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& row : report.rows) rows.push_back(Row(row, numbers));
  return rows;
}

HtmlReport HtmlOf(const wire::UsageReport& report, std::vector<Column> columns) {
  HtmlReport html{
      "GPU-hours by " + report.by, UsageNote(report),       "GPU-hours; of failed runs in another colour", {},
      std::move(columns),          Rows(report, kForPeople)};
  for (const wire::UsageRow& row : report.rows)
    html.bars.push_back(
        {row.group.empty() ? "-" : row.group, row.gpu_hours, row.failed_gpu_hours, kForPeople.Hours(row.gpu_hours)});
  return html;
}

HtmlReport HtmlOf(const wire::FairnessReport& report, std::vector<Column> columns) {
  HtmlReport html{"Waiting by " + report.by, FairnessNote(report),    "Median slowdown", {},
                  std::move(columns),        Rows(report, kForPeople)};
  for (const wire::FairnessRow& row : report.rows)
    html.bars.push_back(
        {row.group.empty() ? "-" : row.group, row.slowdown_median, 0, kForPeople.Times(row.slowdown_median)});
  return html;
}

/// What both reports share: ask, and show as text, table, CSV, JSON or HTML.
template <typename Report>
int Show(const ReportFlags& flags, const std::string& path, std::vector<Column> (*columns_of)(std::string_view),
         std::string (*note_of)(const Report&)) {
  return ShowListing(flags.listing, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string json, api.Raw("GET", path + Query(flags), ""));
    if (flags.listing.json) return json + "\n";
    DIVVY_TRY(const Report report, wire::Decode<Report>(json));
    if (report.is_cut) Note(kIsCut);
    const std::string title = Title(report.by);
    std::vector<Column> columns = columns_of(title);
    if (flags.is_html) return ToHtml(HtmlOf(report, std::move(columns)));
    if (report.rows.empty() && !flags.listing.csv)
      return "Nothing ran from " + Stretch(report.since, report.until) + ".\n";
    DIVVY_TRY(std::string text, RenderTable(columns, Rows(report, Numbers{flags.listing.csv}), flags.listing));
    if (!flags.listing.csv) text += note_of(report) + "\n";
    return text;
  });
}

}  // namespace

std::vector<Option> ReportOptionTable(ReportFlags& flags) {
  std::vector<Option> table = ListingOptionTable(flags.listing);
  const auto moment = [](std::optional<double>& into) {
    return [&into](std::string_view value) -> Status {
      DIVVY_TRY(into, AgoOrMoment(value));
      return {};
    };
  };
  table.push_back({"by",
                   0,
                   Takes::kValue,
                   "WHAT",
                   "Rows of usage: user, team, name, model, pool, node or hour; of fairness: user or team",
                   [&flags](std::string_view value) -> Status {
                     flags.by = value;
                     return {};
                   },
                   {},
                   false});
  table.push_back({"since",
                   0,
                   Takes::kValue,
                   "TIME",
                   "From then on (7d, 2026-03-01); unless said otherwise a week",
                   moment(flags.since),
                   {},
                   false});
  table.push_back({"until",
                   0,
                   Takes::kValue,
                   "TIME",
                   "Until then; unless said otherwise until now",
                   moment(flags.until),
                   {},
                   false});
  table.push_back({"html",
                   0,
                   Takes::kNothing,
                   "",
                   "One HTML page with plots, to standard output",
                   [&flags](std::string_view) -> Status {
                     flags.is_html = true;
                     return {};
                   },
                   {},
                   false});
  return table;
}

int ReportUsage(const ReportFlags& flags) {
  return Show<wire::UsageReport>(flags, "/v1/reports/usage", UsageColumns, UsageNote);
}

int ReportFairness(const ReportFlags& flags) {
  return Show<wire::FairnessReport>(flags, "/v1/reports/fairness", FairnessColumns, FairnessNote);
}

}  // namespace divvy::cli
