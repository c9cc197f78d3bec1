#include "cli/metrics_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "cli/job_text.h"

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

}  // namespace

std::string NothingSeenOf(const wire::JobDetail& job, const std::vector<wire::JobView>& elements) {
  const std::string name = PublicId(job);
  if (!job.elements.empty()) {
    std::vector<std::int64_t> indices;
    for (const wire::JobView& element : elements) {
      if (element.start_time && element.array_index) indices.push_back(*element.array_index);
    }
    std::ranges::sort(indices);
    if (indices.empty()) return "Job " + name + " is an array, and none of its elements has started.\n";
    return "Job " + name + " is an array, whose elements are seen one by one: divvy metrics " + name + "_" +
           GpuList(indices) + "\n";
  }
  if (job.start_time) return "Nothing was seen of job " + name + " in that time.\n";
  const std::string why = job.reason.empty() ? "" : ": " + job.reason;
  return "Job " + name + (job.end_time ? " never ran" : " has not started") + why + ".\n";
}

void PutOwnFirst(wire::SeriesAnswer& answer) {
  std::ranges::stable_partition(answer.series,
                                [](const wire::SeriesView& series) { return series.metric.starts_with(kOwn); });
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
