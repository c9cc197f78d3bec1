#include "daemon/prediction_report.h"

#include <algorithm>
#include <map>

#include "engine/run_times.h"

namespace divvy {
namespace {

wire::PredictionRow RowOf(std::string user, const RunTimes::Accuracy& accuracy) {
  wire::PredictionRow row;
  row.user = std::move(user);
  row.predicted = static_cast<std::int64_t>(accuracy.predicted);
  row.unpredicted = static_cast<std::int64_t>(accuracy.unpredicted);
  row.median_ratio = accuracy.median_ratio;
  row.within_factor_two = accuracy.within_factor_two;
  row.inside_interval = accuracy.inside_interval;
  return row;
}

}  // namespace

wire::PredictionsReport ReportPredictions(std::vector<EndedRun> runs) {
  std::erase_if(runs, [](const EndedRun& run) { return run.started == kNoTime || run.ended <= run.started; });
  std::ranges::stable_sort(runs, {}, &EndedRun::ended);
  RunTimes all;
  std::map<std::string, RunTimes> by_user;  // What is predicted of a user comes from that user's own runs alone.
  for (const EndedRun& run : runs) {
    const RunKind kind{run.user, run.name, ShapeOf(run.command), run.gpus};
    all.Add(kind, run.ended - run.started);
    by_user[run.user].Add(kind, run.ended - run.started);
  }
  wire::PredictionsReport report;
  report.jobs = static_cast<std::int64_t>(runs.size());
  if (!runs.empty()) report.since = ToSeconds(runs.front().ended);
  report.rows.push_back(RowOf("", all.accuracy()));
  for (const auto& [user, times] : by_user) report.rows.push_back(RowOf(user, times.accuracy()));
  return report;
}

}  // namespace divvy
