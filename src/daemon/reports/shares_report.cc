#include "daemon/reports/shares_report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

namespace divvy {
namespace {

constexpr double kHourS = 3600;

/// The seconds of a run, counted from the start of the period.
struct Span {
  double begin = 0;
  double end = 0;
};

/// Adds `gpus` over the span to each step that it touches, in GPU-seconds.
void AddTo(std::vector<double>& steps, const Span& span, double step_s, double gpus) {
  const auto first = static_cast<std::size_t>(span.begin / step_s);
  for (std::size_t i = first; i < steps.size() && static_cast<double>(i) * step_s < span.end; ++i) {
    const double from = std::max(span.begin, static_cast<double>(i) * step_s);
    const double to = std::min(span.end, static_cast<double>(i + 1) * step_s);
    if (to > from) steps[i] += (to - from) * gpus;
  }
}

/// Returns the mean of the known points from `from` until `to`, in seconds since the first point began; nullopt if none
/// is known.
std::optional<double> MeanOver(const std::vector<samples::Point>& points, double step_s, double from, double to) {
  double sum = 0, known = 0;
  const double first = std::max(0.0, std::floor(from / step_s));
  for (auto i = static_cast<std::size_t>(first); i < points.size() && static_cast<double>(i) * step_s < to; ++i) {
    const double begin = std::max(from, static_cast<double>(i) * step_s);
    const double end = std::min(to, static_cast<double>(i + 1) * step_s);
    if (!IsPoint(points[i]) || end <= begin) continue;
    sum += static_cast<double>(points[i].mean) * (end - begin);
    known += end - begin;
  }
  if (known == 0) return std::nullopt;
  return std::round(sum / known * 1000) / 1000;
}

}  // namespace

void AddTeamShares(const MetricStore::Answer& kept, wire::SharesReport& report) {
  for (const MetricStore::Series& series : kept.series) {
    const auto row = std::ranges::find(report.rows, series.subject.node, &wire::SharesRow::group);
    if (row == report.rows.end() || row->group.empty()) continue;
    for (const samples::Curve& curve : series.curves) {
      auto* const out = curve.metric == samples::Metric::kTeamShare   ? &row->share
                        : curve.metric == samples::Metric::kTeamQuota ? &row->quota
                        : curve.metric == samples::Metric::kTeamLimit ? &row->limit
                                                                      : nullptr;
      if (out == nullptr) continue;
      const double ahead = report.since - static_cast<double>(kept.begin);
      for (std::size_t i = 0; i < row->gpus.size(); ++i) {
        const double from = ahead + static_cast<double>(i) * report.step_s;
        out->push_back(MeanOver(curve.points, static_cast<double>(kept.step), from, from + report.step_s));
      }
    }
  }
}

wire::SharesReport ReportShares(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch,
                                std::size_t points) {
  const double length = ToSeconds(stretch.until - stretch.since);
  wire::SharesReport report;
  report.since = ToSeconds(stretch.since);
  report.until = ToSeconds(stretch.until);
  report.by = ReportByName(by);
  report.step_s = std::max(1.0, std::ceil(length / static_cast<double>(points)));
  const auto count = static_cast<std::size_t>(std::ceil(length / report.step_s));
  std::map<std::string, std::vector<double>> groups;
  for (const ReportedRun& run : runs) {
    if (run.started == kNoTime || run.gpus <= 0) continue;
    const Time end = run.ended == kNoTime ? stretch.until : std::min(run.ended, stretch.until);
    const Time begin = std::max(run.started, stretch.since);
    if (begin >= end) continue;
    auto& steps = groups.try_emplace(GroupOf(run, by), count, 0.0).first->second;
    AddTo(steps, {ToSeconds(begin - stretch.since), ToSeconds(end - stretch.since)}, report.step_s, run.gpus);
  }
  for (auto& [group, steps] : groups) {
    wire::SharesRow row;
    row.group = group;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      row.gpu_hours += steps[i] / kHourS;
      const double lasted = std::min(report.step_s, length - static_cast<double>(i) * report.step_s);
      row.gpus.push_back(steps[i] / lasted);
    }
    report.rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(report.rows, std::greater(), &wire::SharesRow::gpu_hours);
  return report;
}

}  // namespace divvy
