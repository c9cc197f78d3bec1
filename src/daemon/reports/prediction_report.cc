#include "daemon/reports/prediction_report.h"

#include <algorithm>
#include <map>

#include "engine/run_times.h"

namespace divvy {
namespace {

/// Results of predictions for a group of runs.
struct Outcomes {
  std::int64_t unpredicted = 0;
  std::vector<double> ratios;  // Actual run time divided by the typical prediction.
  std::int64_t inside = 0;     // The number of runs inside the predicted interval.

  void Add(const std::optional<RunTimeEstimate>& estimate, Duration ran) {
    if (!estimate) {
      ++unpredicted;
      return;
    }
    const double typical = std::max(1.0, static_cast<double>(estimate->typical.count()));
    ratios.push_back(static_cast<double>(ran.count()) / typical);
    if (ran >= estimate->low && ran <= estimate->high) ++inside;
  }
};

wire::PredictionRow RowOf(const std::string& group, ReportBy by, Outcomes outcomes) {
  wire::PredictionRow row;
  row.group = group;
  if (by == ReportBy::kUser) row.user = group;
  row.predicted = static_cast<std::int64_t>(outcomes.ratios.size());
  row.unpredicted = outcomes.unpredicted;
  if (outcomes.ratios.empty()) return row;
  const auto middle = outcomes.ratios.begin() + static_cast<std::ptrdiff_t>(outcomes.ratios.size() / 2);
  std::ranges::nth_element(outcomes.ratios, middle);
  row.median_ratio = *middle;
  const auto count = static_cast<double>(outcomes.ratios.size());
  const auto is_near = [](double ratio) { return ratio >= 0.5 && ratio <= 2; };
  row.within_factor_two = static_cast<double>(std::ranges::count_if(outcomes.ratios, is_near)) / count;
  row.inside_interval = static_cast<double>(outcomes.inside) / count;
  return row;
}

}  // namespace

wire::PredictionsReport ReportPredictions(std::vector<EndedRun> runs, ReportBy by, const ReportStretch& stretch,
                                          bool is_cut) {
  const auto end_of = [](const EndedRun& ended) { return ended.run.ended; };
  std::erase_if(
      runs, [](const EndedRun& ended) { return ended.run.started == kNoTime || ended.run.ended <= ended.run.started; });
  std::ranges::stable_sort(runs, {}, end_of);
  wire::PredictionsReport report;
  report.by = ReportByName(by);
  report.until = ToSeconds(stretch.until);
  if (stretch.since != kNoTime) report.since = ToSeconds(stretch.since);
  // A request without `since` gets the latest runs, and is not marked as cut.
  report.is_cut = is_cut && stretch.since != kNoTime && !runs.empty() && runs.front().run.ended > stretch.since;
  RunTimes times;
  Outcomes all;
  std::map<std::string, Outcomes> groups;
  for (const EndedRun& ended : runs) {
    const ReportedRun& run = ended.run;
    if (run.ended > stretch.until) break;
    const RunProfile kind{run.user, run.name, ShapeOf(ended.command), ended.gpus};
    if (run.ended >= stretch.since) {
      const auto estimate = times.Predict(kind);
      const Duration ran = run.ended - run.started;
      if (report.jobs++ == 0 && stretch.since == kNoTime) report.since = ToSeconds(run.ended);
      all.Add(estimate, ran);
      groups[by == ReportBy::kHour ? HourName(run.ended) : GroupOf(run, by)].Add(estimate, ran);
    }
    times.Add(kind, run.ended - run.started);
  }
  report.rows.push_back(RowOf("", by, std::move(all)));
  report.rows.front().is_all = true;
  for (auto& [group, outcomes] : groups) report.rows.push_back(RowOf(group, by, std::move(outcomes)));
  return report;
}

}  // namespace divvy
