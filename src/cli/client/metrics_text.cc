#include "cli/client/metrics_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "base/text.h"
#include "cli/client/job_text.h"

namespace divvy::cli {
namespace {

constexpr std::string_view kOwn = "own.";
constexpr std::string_view kStep = "step";

std::string NumberText(double value) {
  char text[40];
  constexpr double kMostWhole = 1e15;
  const bool is_whole = std::abs(value) < kMostWhole && value == std::floor(value);
  std::snprintf(text, sizeof text, is_whole ? "%.0f" : "%.4g", value);
  return text;
}

std::tm LocalTime(double seconds) {
  const auto moment = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::localtime_r(&moment, &parts);
  return parts;
}

bool IsSameDay(const std::tm& a, const std::tm& b) { return a.tm_year == b.tm_year && a.tm_yday == b.tm_yday; }

std::string TimeText(const std::tm& time, const std::string& format) {
  char text[64];
  std::strftime(text, sizeof text, format.c_str(), &time);
  return text;
}

}  // namespace

std::string NothingSeenOf(const wire::JobDetail& job, const std::vector<wire::JobView>& elements,
                          const std::vector<std::string>& metrics) {
  const std::string name = PublicId(job);
  if (!job.elements.empty()) {
    std::vector<std::int64_t> indices;
    for (const wire::JobView& element : elements) {
      if (element.start_time && element.array_index) indices.push_back(*element.array_index);
    }
    std::ranges::sort(indices);
    if (indices.empty()) return "Job " + name + " is an array, but none of its elements has started.\n";
    return "Job " + name + " is an array; name one of its elements: divvy metrics " + name + "_" + GpuList(indices) +
           "\n";
  }
  if (job.start_time)
    return (metrics.empty() ? "Nothing" : "No " + Join(metrics, ", ")) + " was sampled for job " + name +
           " in that period.\n";
  const std::string why = job.reason.empty() ? "" : ": " + job.reason;
  return "Job " + name + (job.end_time ? " never ran" : " has not started") + why + ".\n";
}

std::pair<std::string, std::string> AxisText(double begin, double end, double now) {
  constexpr double kShort = 600;
  constexpr double kLong = 14 * 86'400;
  const std::tm from = LocalTime(begin), to = LocalTime(end), today = LocalTime(now);
  const bool has_year = from.tm_year != today.tm_year || to.tm_year != today.tm_year;
  const std::string clock = end - begin > kShort ? "%H:%M" : "%H:%M:%S";
  const std::string day = has_year ? "%Y-%m-%d" : "%b %d";
  if (IsSameDay(from, to))
    return {TimeText(from, IsSameDay(to, today) ? clock : day + " " + clock), TimeText(to, clock)};
  // Over years, dates are precise enough and always fit.
  const std::string both = has_year && end - begin > kLong ? day : day + " " + clock;
  return {TimeText(from, both), TimeText(to, both)};
}

void PutOwnFirst(wire::SeriesAnswer& answer) {
  std::ranges::stable_partition(answer.series,
                                [](const wire::SeriesView& series) { return series.metric.starts_with(kOwn); });
}

Status KeepSlice(const std::string& gpu, const std::string& slice, wire::SeriesAnswer& answer) {
  if (slice.empty() || slice == "all") return {};
  const auto number = [](const wire::SeriesView& series) {
    return series.instance ? std::to_string(*series.instance) : "";
  };
  std::vector<std::string> seen;
  for (const wire::SeriesView& series : answer.series) {
    if (std::ranges::find(seen, number(series)) == seen.end()) seen.push_back(number(series));
  }
  std::erase_if(answer.series, [&](const wire::SeriesView& series) { return number(series) != slice; });
  if (!answer.series.empty()) return {};
  return NotFound("GPU " + gpu + " had no samples of MIG instance " + slice + " in that period; " +
                  (seen.empty() ? "no instance was sampled" : "sampled instances: " + Join(seen, ", ")));
}

std::map<std::string, double> LastOwn(const wire::SeriesAnswer& answer) {
  std::map<std::string, double> own;
  for (const wire::SeriesView& series : answer.series) {
    if (!series.metric.starts_with(kOwn)) continue;
    for (const auto& mean : series.mean) {
      if (mean) own[series.metric.substr(kOwn.size())] = *mean;
    }
  }
  return own;
}

std::string OwnNumbersText(const std::map<std::string, double>& own) {
  std::string text;
  if (const auto step = own.find(std::string(kStep)); step != own.end())
    text = std::string(kStep) + " " + NumberText(step->second);
  for (const auto& [name, value] : own) {
    if (name != kStep) text += (text.empty() ? "" : ", ") + name + " " + NumberText(value);
  }
  return text;
}

}  // namespace divvy::cli
