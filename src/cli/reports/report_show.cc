#include "cli/reports/report_show.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/text.h"
#include "cli/client/job_text.h"
#include "wire/http/http.h"

namespace divvy::cli {

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

std::vector<dialect::Option> ReportOptionTable(ReportFlags& flags) {
  std::vector<dialect::Option> table = ListingOptionTable(flags.listing);
  const auto moment = [](std::optional<double>& into) { return dialect::Reads(into, AgoOrMoment); };
  table.push_back(dialect::Option::Value("by", "WHAT",
                                         "Rows by user, team, name, model, pool or node (not for fairness and "
                                         "predictions), hour (not for shares) or job (usage, waste, efficiency)",
                                         dialect::Keeps(flags.by)));
  table.push_back(dialect::Option::Value(
      "since", "TIME",
      "Start time: 7d ago, 16:00, yesterday, 2026-03-01; a bare number means hours ago (default: a week ago)",
      moment(flags.since)));
  table.push_back(dialect::Option::Value("until", "TIME", "End time (default: now)", moment(flags.until)));
  table.push_back(dialect::Option::Flag("html", "Print an HTML page with plots", dialect::Sets(flags.is_html)));
  return table;
}

}  // namespace divvy::cli
