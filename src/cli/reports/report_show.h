// Shared parts of reports over a period of time: how they are requested, and how numbers and rows are shown.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/client/progress_indicator.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "cli/reports/report_html.h"
#include "dialect/options/options.h"

namespace divvy::cli {

/// Formats numbers for users, or exactly for programs (CSV): hours, fractions of 1, seconds.
struct Numbers {
  bool is_exact = false;

  std::string Hours(double hours) const;
  std::string Share(double share) const;
  std::string Wait(double seconds) const;
  /// Like Wait(double), but accepts nullopt (no job waited): "-" for users, "" for programs.
  std::string Wait(const std::optional<double>& seconds) const;
  std::string Times(double ratio) const;
  /// Shown for an unknown number: "-", for programs "".
  std::string Unknown() const { return is_exact ? "" : "-"; }
};
inline constexpr Numbers kForPeople = {};
/// "2.50".
std::string Fixed(double value, int digits);

struct ReportFlags {
  ListingOptions listing;
  std::string by;
  std::optional<double> since;  // Seconds since 1970.
  std::optional<double> until;
  bool is_html = false;

  /// True if an option was given that only reports over a period of time have.
  bool has_stretch() const { return !by.empty() || since || until || is_html; }
};
std::vector<dialect::Option> ReportOptionTable(ReportFlags& flags);

/// "since=..&until=..&by=..", with the flags that were given.
std::string ReportQuery(const ReportFlags& flags);
/// The title of the first column: "USER".
std::string TitleOf(std::string by);
/// Name of the daemon's machine; empty if unknown.
std::string HostOf(Api& api);
/// Formats an hour as reports name it ("2026-03-01T16", UTC). For users "2026-03-01 17:00" in the caller's time zone;
/// for programs "2026-03-01T16:00Z". Any other text stays unchanged.
std::string HourText(const std::string& hour, bool is_exact);
/// A note below rows by hour for callers whose time zone is not offset from UTC by whole hours: " Rows are hours of
/// UTC, ...". Empty otherwise. `at`: seconds since 1970.
std::string HoursNote(const std::string& by, double at);
/// "2026-03-01 16:00 to 2026-03-08 16:00".
std::string StretchText(double since, double until);
/// Shown instead of an empty report. `since` 0: as far back as the history goes.
std::string NothingRanText(double since, double until);

/// The title of the first column if each row is a job.
inline constexpr std::string_view kOfJobs = "JOB";

inline std::string NameOf(const std::string& group) { return group.empty() ? "-" : group; }

/// Most rows shown to users in reports by job; the largest losses come first.
inline constexpr std::size_t kMostJobsShown = 50;

/// Columns that identify a row: for a job its id, name, user and state, otherwise the group and its number of jobs.
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

/// Returns the rows to show: all, except in a report by job for users. There, rows with a very small loss (is_small)
/// are left out, and at most kMostJobsShown rows remain.
template <typename Report>
auto RowsShown(const Report& report, const Numbers& numbers) {
  auto rows = report.rows;
  if (numbers.is_exact || report.by != "job") return rows;
  if constexpr (requires { rows.front().is_small; }) std::erase_if(rows, [](const auto& row) { return row.is_small; });
  if (rows.size() > kMostJobsShown) rows.resize(kMostJobsShown);
  return rows;
}

/// Returns the note about rows that RowsShown leaves out: " The 50 that lost most; --csv lists more.". Empty if all
/// rows are shown.
template <typename Report>
std::string CutNote(const Report& report) {
  const std::size_t shown = RowsShown(report, kForPeople).size();
  if (shown == 0 && !report.rows.empty()) return " No job wasted enough to be listed; --csv lists all jobs.";
  return shown < report.rows.size() ? " The " + std::to_string(shown) + " that lost most; --csv lists more." : "";
}

inline constexpr std::string_view kIsCut =
    "That period has too many runs, so the oldest are left out; shorten it with --since.";

/// The parts of one kind of report: its columns, its rows, the note below, the HTML page.
template <typename Report>
struct ReportShape {
  std::vector<Column> (*columns)(std::string_view title);
  std::vector<std::vector<Cell>> (*rows)(const Report& report, const Numbers& numbers);
  std::string (*note)(const Report& report);
  HtmlReport (*html)(const Report& report, std::vector<Column> columns);
  bool (*is_empty)(const Report& report) = [](const Report& report) { return report.rows.empty(); };
  /// Further columns are shown without being asked for, as the report has something to say in them.
  void (*show_columns)(const Report& report, std::vector<Column>& columns) = [](const Report&, std::vector<Column>&) {};
};

/// Requests the report at `target` and shows it as text, table, CSV, JSON or HTML.
template <typename Report>
int ShowReportAt(const ReportFlags& flags, const std::string& target, const ReportShape<Report>& shape) {
  return ShowListing(flags.listing, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    std::optional<ProgressIndicator> progress(std::in_place, "reading the history");
    DIVVY_TRY(const std::string json, api.Raw("GET", target, ""));
    progress.reset();
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
    shape.show_columns(report, columns);
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
