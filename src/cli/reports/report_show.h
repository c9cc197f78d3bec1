// What reports over a stretch of time share: how numbers are written, how they are asked for and shown.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/client/patience.h"
#include "cli/client/shown_answer.h"
#include "cli/reports/report_html.h"
#include "cli/reports/report_usage.h"

namespace divvy::cli {

/// Numbers as people read them, or, for programs (CSV), as they are: hours, parts of one, seconds.
struct Numbers {
  bool is_exact = false;

  std::string Hours(double hours) const;
  std::string Share(double share) const;
  std::string Wait(double seconds) const;
  /// Of nobody who waited: "-", for programs nothing.
  std::string Wait(const std::optional<double>& seconds) const;
  std::string Times(double ratio) const;
  /// In the place of a number that nobody knows: "-", for programs nothing.
  std::string Unknown() const { return is_exact ? "" : "-"; }
};
inline constexpr Numbers kForPeople = {};
/// "2.50".
std::string Fixed(double value, int digits);

/// "since=..&until=..&by=..", as far as they were given.
std::string ReportQuery(const ReportFlags& flags);
/// The first column's: "USER".
std::string TitleOf(std::string by);
/// The machine of whose daemon it is; empty: not known.
std::string HostOf(Api& api);
/// Of an hour as reports name it ("2026-03-01T16", UTC): "2026-03-01 17:00" in the caller's time zone, as all else is
/// for people; for programs "2026-03-01T16:00Z". What is no hour stays.
std::string HourText(const std::string& hour, bool is_exact);
/// What to say below rows by hour where the caller's hours are not those of UTC, which they are: " Rows are hours of
/// UTC, ..."; empty: they are. `at`: seconds since 1970.
std::string HoursNote(const std::string& by, double at);
/// "2026-03-01 16:00 to 2026-03-08 16:00".
std::string StretchText(double since, double until);
/// In the place of a report of nothing. `since`: 0: as far back as anything is known.
std::string NothingRanText(double since, double until);

/// TitleOf rows that are of jobs.
inline constexpr std::string_view kOfJobs = "JOB";

inline std::string NameOf(const std::string& group) { return group.empty() ? "-" : group; }

/// By job these are shown to people: who lost most is first.
inline constexpr std::size_t kMostJobsShown = 50;

/// What names a row: of a job its own number, name, user and state, else the group and how many jobs it has.
std::vector<Column> WithNames(std::string_view title, std::vector<Column> others);

template <typename Row>
std::vector<Cell> NamesOf(const Row& row) {
  if (!row.job) return {{NameOf(row.group), Colour::kBold}, {std::to_string(row.jobs), Colour::kNone}};
  return {{NameOf(row.group), Colour::kBold},
          {row.job->name, Colour::kNone},
          {row.job->user, Colour::kNone},
          {row.job->state, Colour::kNone}};
}

template <typename Row>
std::string LabelOf(const Row& row) {
  return NameOf(row.group) + (row.job ? " " + row.job->name : "");
}

/// What is shown: by job, people see the first of those that are worth telling.
template <typename Report>
auto RowsShown(const Report& report, const Numbers& numbers) {
  auto rows = report.rows;
  if (numbers.is_exact || report.by != "job") return rows;
  if constexpr (requires { rows.front().is_small; }) std::erase_if(rows, [](const auto& row) { return row.is_small; });
  if (rows.size() > kMostJobsShown) rows.resize(kMostJobsShown);
  return rows;
}

/// " The 50 that lost most; --csv has more."; empty: all are shown.
template <typename Report>
std::string CutNote(const Report& report) {
  const std::size_t shown = RowsShown(report, kForPeople).size();
  if (shown == 0 && !report.rows.empty()) return " No job lost enough to be told of; --csv has all.";
  return shown < report.rows.size() ? " The " + std::to_string(shown) + " that lost most; --csv has more." : "";
}

inline constexpr std::string_view kIsCut =
    "More runs lie in that time than are read at once: the oldest are not in it; ask for less with --since.";

/// A report's own: its columns, a row of them, the line below, the page.
template <typename Report>
struct ReportShape {
  std::vector<Column> (*columns)(std::string_view title);
  std::vector<std::vector<Cell>> (*rows)(const Report& report, const Numbers& numbers);
  std::string (*note)(const Report& report);
  HtmlReport (*html)(const Report& report, std::vector<Column> columns);
  bool (*is_empty)(const Report& report) = [](const Report& report) { return report.rows.empty(); };
};

/// Asks at `target`, and shows as text, table, CSV, JSON or HTML.
template <typename Report>
int ShowReportAt(const ReportFlags& flags, const std::string& target, const ReportShape<Report>& shape) {
  return ShowListing(flags.listing, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    std::optional<Patience> patience(std::in_place, "reading the history");
    DIVVY_TRY(const std::string json, api.Raw("GET", target, ""));
    patience.reset();
    if (flags.listing.json) return json + "\n";
    DIVVY_TRY(Report report, DecodeShown<Report>(json));
    if constexpr (requires { report.rows.front().group = std::string(); }) {
      for (auto& row : report.rows)
        row.group = report.by == "hour" ? HourText(row.group, flags.listing.csv) : row.group;
    }
    if (report.is_cut) Note(kIsCut);
    std::vector<Column> columns;
    const std::string title = TitleOf(report.by);
    columns = shape.columns(title);
    if (flags.is_html) {
      HtmlReport page = shape.html(report, std::move(columns));
      page.host = HostOf(api);
      page.note += HoursNote(report.by, report.until);
      return ToHtml(page);
    }
    if (shape.is_empty(report) && !flags.listing.csv) return NothingRanText(report.since, report.until) + "\n";
    DIVVY_TRY(std::string text, RenderTable(columns, shape.rows(report, Numbers{flags.listing.csv}), flags.listing));
    if (!flags.listing.csv) {
      const std::string note = shape.note(report) + HoursNote(report.by, report.until);
      text += Folded(note + "\n", static_cast<std::size_t>(TerminalWidth()));
    }
    return text;
  });
}
template <typename Report>
int ShowReport(const ReportFlags& flags, const std::string& path, const ReportShape<Report>& shape) {
  return ShowReportAt(flags, path + ReportQuery(flags), shape);
}

}  // namespace divvy::cli
