#include "daemon/api/reports/report_request.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"

namespace divvy {
namespace {

/// Only the row of each run is read; this many need about 150 MB meanwhile.
constexpr std::uint64_t kMostReported = 100'000;
constexpr Duration kUsualStretch = std::chrono::hours(24 * 7);

Result<Time> MomentIn(const HttpRequest& request, const char* name, Time otherwise) {
  const auto at = request.query.find(name);
  if (at == request.query.end()) return otherwise;
  const auto seconds = ParseNumber(at->second);
  if (!seconds || !std::isfinite(*seconds) || *seconds < 0 || *seconds > 1e10)
    return InvalidArgument("'" + std::string(name) + "' is seconds since 1970, not '" + at->second + "'");
  return TimeFromSeconds(*seconds);
}

}  // namespace

Result<ReportStretch> StretchOf(const HttpRequest& request, Time now) {
  ReportStretch stretch;
  DIVVY_TRY(stretch.until, MomentIn(request, "until", now));
  DIVVY_TRY(stretch.since, MomentIn(request, "since", stretch.until - kUsualStretch));
  if (stretch.since >= stretch.until && !request.query.contains("until"))
    return InvalidArgument("'since' is in the future");
  if (stretch.since >= stretch.until) return InvalidArgument("'since' must be before 'until'");
  return stretch;
}

Result<ReportBy> ReportByOf(const HttpRequest& request, std::span<const ReportBy> legal) {
  const auto at = request.query.find("by");
  if (at == request.query.end()) return legal.front();
  const auto by = ReportByFromName(at->second);
  if (!by || std::ranges::find(legal, *by) == legal.end())
    return InvalidArgument("'by' is " + ReportByNames(legal) + " in this report, not '" + at->second + "'");
  return *by;
}

// Running, waiting and just ended jobs come from the loop; the rest is read from the store outside of it.
void ReportRuns(ApiContext& api, ApiCall& call, ReportBy by, const ReportStretch& stretch, PastRuns past,
                ReportOfRuns report) {
  std::map<JobId, std::uint32_t> known;  // Maps each job to its counted run; 0: the job waits.
  std::vector<ReportedRun> runs;
  const auto add_run = [by, own_node = OwnNodeName(api.ports)](const JobRecord& record, bool is_past,
                                                               std::vector<ReportedRun>& to) {
    is_past ? AddPastRunOf(record, by, own_node, to) : AddRunOf(record, by, own_node, to);
  };
  const auto add = [&](const JobRecord& record) {
    // The runs of an array are those of its elements.
    const std::uint32_t run = IsWaiting(record.state) ? 0 : record.attempt;
    if (known.emplace(record.id, run).second && record.array_count == 0) add_run(record, false, runs);
  };
  for (const auto& [id, record] : api.driver.controller().live()) add(record);
  for (const JobRecord& record : api.driver.EndedUnstored()) add(record);
  HistoryFilter filter;
  filter.states = {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled, JobState::kTimedOut, JobState::kLost};
  filter.since = stretch.since;
  filter.limit = kMostReported;
  api.reader.Read(call,
                  [&api, add_run, filter, known = std::move(known), runs = std::move(runs), past,
                   report = std::move(report)]() mutable -> FinishCall {
                    const auto history = api.driver.store().History(filter);
                    if (!history) return [error = history.error()](ApiCall& asked) { asked.Refuse(error); };
                    for (const JobRecord& record : *history) {
                      if (!known.contains(record.id) && record.array_count == 0) add_run(record, false, runs);
                    }
                    bool is_cut = history->size() >= filter.limit;
                    if (past == PastRuns::kCount) {
                      const auto over = api.driver.store().PastRuns(filter.since, kMostReported);
                      if (!over) return [error = over.error()](ApiCall& asked) { asked.Refuse(error); };
                      for (const JobRecord& record : *over) {
                        // The run may have become an earlier one since the running jobs were collected.
                        const auto counted = known.find(record.id);
                        if (counted == known.end() || counted->second != record.attempt) add_run(record, true, runs);
                      }
                      is_cut |= over->size() >= kMostReported;
                    }
                    return [text = report(runs, is_cut)](ApiCall& asked) { asked.Send(200, text); };
                  });
}

}  // namespace divvy
