#include "cli/reports/report_usage.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/text.h"
#include "cli/client/job_text.h"
#include "cli/reports/report_show.h"
#include "wire/http/http.h"
#include "wire/messages/messages_reports.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

// For a single job, its state shows whether it runs or has failed.
std::vector<Column> UsageColumns(std::string_view title) {
  std::vector<Column> columns = {{"RUNNING", true, true, false},   {"FAILED", true, true, false},
                                 {"GPU-HOURS", true, true, false}, {"OF FAILED", true, true, false},
                                 {"SHARE", true, true, false},     {"WAIT", true, true, false},
                                 {"WAIT P95", true, true, false},  {"WAIT MEAN", true, false, false}};
  if (title == kOfJobs) columns.erase(columns.begin(), columns.begin() + 2);
  return WithNames(title, std::move(columns));
}

std::vector<Cell> Row(const wire::UsageRow& row, const Numbers& numbers) {
  std::vector<Cell> cells = NamesOf(row);
  if (!row.job) {
    cells.push_back({std::to_string(row.running), Colour::kNone});
    cells.push_back({std::to_string(row.failed), row.failed > 0 ? Colour::kYellow : Colour::kNone});
  }
  const std::vector<Cell> others = {
      {numbers.Hours(row.gpu_hours), Colour::kNone}, {numbers.Hours(row.failed_gpu_hours), Colour::kNone},
      {numbers.Share(row.share), Colour::kNone},     {numbers.Wait(row.wait_median_s), Colour::kNone},
      {numbers.Wait(row.wait_p95_s), Colour::kNone}, {numbers.Wait(row.wait_mean_s), Colour::kNone}};
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

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::vector<Column> WithNames(std::string_view title, std::vector<Column> others) {
  std::vector<Column> columns = {{title, false, true, true}};
  if (title == kOfJobs) {
    columns.push_back({"NAME", false, true, true});
    columns.push_back({"USER", false, true, false});
    columns.push_back({"STATE", false, true, false});
  } else {
    columns.push_back({"JOBS", true, true, false});
  }
  columns.insert(columns.end(), others.begin(), others.end());
  return columns;
}

std::string Numbers::Hours(double hours) const {
  if (!is_exact && hours == 0) return "0";
  return Fixed(hours, is_exact ? 6 : hours > 0 && hours < 0.995 ? 3 : 1);
}

std::string Numbers::Share(double share) const {
  if (!is_exact && share > 0 && share < 0.0005) return "<0.1%";
  return is_exact ? Fixed(share, 6) : Fixed(share * 100, share > 0 && share < 0.0995 ? 1 : 0) + "%";
}

std::string Numbers::Wait(double seconds) const { return is_exact ? Fixed(seconds, 3) : InWords(seconds); }

std::string Numbers::Wait(const std::optional<double>& seconds) const {
  return seconds ? Wait(*seconds) : is_exact ? "" : "-";
}

std::string Numbers::Times(double ratio) const { return is_exact ? Fixed(ratio, 6) : Fixed(ratio, 2) + "x"; }

std::string ReportQuery(const ReportFlags& flags) {
  std::string out;
  const auto add = [&](std::string_view name, const std::string& value) {
    out += (out.empty() ? "?" : "&") + std::string(name) + "=" + PercentEncode(value);
  };
  if (!flags.by.empty()) add("by", flags.by);
  if (flags.since) add("since", Fixed(*flags.since, 3));
  if (flags.until) add("until", Fixed(*flags.until, 3));
  return out;
}

std::string HostOf(Api& api) {
  const auto status = api.Status();
  if (status && !status->node.empty()) return status->node;
  if (status && !status->listens.empty()) return status->listens.substr(0, status->listens.rfind(':'));
  return api.is_remote() ? "" : HostName();
}

std::string TitleOf(std::string by) {
  std::ranges::transform(by, by.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return by;
}

std::string HourText(const std::string& hour, bool is_exact) {
  std::tm parts{};
  const char* const end = ::strptime(hour.c_str(), "%Y-%m-%dT%H", &parts);
  if (end == nullptr || *end != '\0') return hour;
  return is_exact ? hour + ":00Z" : DayAndTime(static_cast<double>(::timegm(&parts)));
}

std::string HoursNote(const std::string& by, double at) {
  constexpr long kHour = 3600;
  const auto moment = static_cast<std::time_t>(at);
  std::tm parts{};
  ::localtime_r(&moment, &parts);
  const long beyond = std::abs(parts.tm_gmtoff) % kHour;
  if (by != "hour" || beyond == 0) return "";
  char zone[16];
  std::strftime(zone, sizeof zone, "%z", &parts);
  return " Rows are hours of UTC, which in the local time zone (" + std::string(zone) + ") do not begin on the hour.";
}

std::string StretchText(double since, double until) { return DayAndTime(since) + " to " + DayAndTime(until); }

std::string NothingRanText(double since, double until) {
  if (since <= 0) return "Nothing ran before " + DayAndTime(until) + ".";
  return "Nothing ran from " + StretchText(since, until) + ".";
}

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
                   "Rows by user, team, name, model, pool or node (not for fairness and predictions), hour (not for "
                   "shares) or job (usage, waste, efficiency)",
                   [&flags](std::string_view value) -> Status {
                     flags.by = value;
                     return {};
                   },
                   {},
                   false});
  table.push_back(
      {"since",
       0,
       Takes::kValue,
       "TIME",
       "Start time: 7d ago, 16:00, yesterday, 2026-03-01; a bare number means hours ago (default: a week ago)",
       moment(flags.since),
       {},
       false});
  table.push_back({"until", 0, Takes::kValue, "TIME", "End time (default: now)", moment(flags.until), {}, false});
  table.push_back({"html",
                   0,
                   Takes::kNothing,
                   "",
                   "Print an HTML page with plots",
                   [&flags](std::string_view) -> Status {
                     flags.is_html = true;
                     return {};
                   },
                   {},
                   false});
  return table;
}

int ReportUsage(const ReportFlags& flags) {
  return ShowReport<wire::UsageReport>(flags, "/v1/reports/usage", {UsageColumns, Rows, UsageNote, HtmlOf});
}

int ReportFairness(const ReportFlags& flags) {
  return ShowReport<wire::FairnessReport>(flags, "/v1/reports/fairness", {FairnessColumns, Rows, FairnessNote, HtmlOf});
}

}  // namespace divvy::cli
