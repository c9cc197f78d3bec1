// The routes of reports: the store's history, read outside the loop, and what was learned from it.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "daemon/api/reports/report_request.h"
#include "daemon/reports/prediction_report.h"
#include "daemon/reports/usage_report.h"
#include "wire/messages/messages_reports.h"
#include "wire/messages/messages_teams.h"

namespace divvy {
namespace {

/// The specification of each run is read as well; this many take about a second.
constexpr std::uint64_t kMostRuns = 10'000;
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

// Without `since` all runs count, because predictions are not learned from one week only.
void ReportRoutes::Predictions(ApiCall& call) {
  const auto by = ReportByOf(call.request, kWaitingIsBy);
  if (!by) return call.Refuse(by.error());
  const bool is_all = !call.request.query.contains("since");
  auto stretch = StretchOf(call.request, core_.Now());
  if (!stretch) return call.Refuse(stretch.error());
  if (is_all) stretch->since = kNoTime;
  api_.reader.Read(call, [this, by = *by, stretch = *stretch, own_node = OwnNodeName(ports_)]() -> FinishCall {
    HistoryFilter filter;
    filter.states = {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled, JobState::kTimedOut};
    filter.limit = kMostRuns;
    const auto history = core_.store().History(filter);
    if (!history) return [error = history.error()](ApiCall& asked) { asked.Refuse(error); };
    std::vector<EndedRun> runs;
    JobId spec_of;
    std::vector<std::string> command;
    for (const JobRecord& record : *history) {
      if (record.array_count > 0 || record.started == kNoTime) continue;
      if (record.spec_of != spec_of) {
        const auto spec = core_.store().Spec(record.spec_of);
        command = spec ? spec->command : std::vector<std::string>();
        spec_of = record.spec_of;
      }
      std::vector<ReportedRun> run;
      AddRunOf(record, by, own_node, run);
      runs.push_back({std::move(run.front()), command, record.gpus.size()});
    }
    const bool is_cut = history->size() >= kMostRuns;
    return [text = wire::Encode(ReportPredictions(std::move(runs), by, stretch, is_cut))](ApiCall& asked) {
      asked.Send(200, text);
    };
  });
}

// Running, waiting and just ended jobs come from the loop; the rest is read from the store outside of it.
void ReportRoutes::ReportRuns(ApiCall& call, ReportBy by, const ReportStretch& stretch, PastRuns past, ReportOfRuns report) {
  std::map<JobId, std::uint32_t> known;  // Maps each job to its counted run; 0: the job waits.
  std::vector<ReportedRun> runs;
  const std::string own_node = OwnNodeName(ports_);
  const auto add = [&](const JobRecord& record) {
    // The runs of an array are those of its elements.
    const std::uint32_t run = IsWaiting(record.state) ? 0 : record.attempt;
    if (known.emplace(record.id, run).second && record.array_count == 0) AddRunOf(record, by, own_node, runs);
  };
  for (const auto& [id, record] : core_.controller().live()) add(record);
  for (const JobRecord& record : core_.EndedUnstored()) add(record);
  HistoryFilter filter;
  filter.states = {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled, JobState::kTimedOut, JobState::kLost};
  filter.since = stretch.since;
  filter.limit = kMostReported;
  api_.reader.Read(call,
            [this, by, own_node, filter, known = std::move(known), runs = std::move(runs), past,
             report = std::move(report)]() mutable -> FinishCall {
              const auto history = core_.store().History(filter);
              if (!history) return [error = history.error()](ApiCall& asked) { asked.Refuse(error); };
              for (const JobRecord& record : *history) {
                if (!known.contains(record.id) && record.array_count == 0) AddRunOf(record, by, own_node, runs);
              }
              bool is_cut = history->size() >= filter.limit;
              if (past == PastRuns::kCount) {
                const auto over = core_.store().PastRuns(filter.since, kMostReported);
                if (!over) return [error = over.error()](ApiCall& asked) { asked.Refuse(error); };
                for (const JobRecord& record : *over) {
                  // The run may have become an earlier one since the running jobs were collected.
                  const auto counted = known.find(record.id);
                  if (counted == known.end() || counted->second != record.attempt)
                    AddPastRunOf(record, by, own_node, runs);
                }
                is_cut |= over->size() >= kMostReported;
              }
              return [text = report(runs, is_cut)](ApiCall& asked) { asked.Send(200, text); };
            });
}

void ReportRoutes::Usage(ApiCall& call) {
  const auto by = ReportByOf(call.request, kUsageIsBy);
  if (!by) return call.Refuse(by.error());
  const auto stretch = StretchOf(call.request, core_.Now());
  if (!stretch) return call.Refuse(stretch.error());
  const double gpus = core_.controller().scheduler().gpu_count();
  ReportRuns(call, *by, *stretch, PastRuns::kCount,
             [by = *by, stretch = *stretch, gpus](const std::vector<ReportedRun>& runs, bool is_cut) {
               wire::UsageReport report = ReportUsage(runs, by, stretch);
               report.capacity_gpu_hours = gpus * ToSeconds(stretch.until - stretch.since) / 3600;
               report.is_cut = is_cut;
               return wire::Encode(report);
             });
}

void ReportRoutes::Fairness(ApiCall& call) {
  const auto by = ReportByOf(call.request, kWaitingIsBy);
  if (!by) return call.Refuse(by.error());
  const auto stretch = StretchOf(call.request, core_.Now());
  if (!stretch) return call.Refuse(stretch.error());
  ReportRuns(call, *by, *stretch, PastRuns::kCount,
             [by = *by, stretch = *stretch](const std::vector<ReportedRun>& runs, bool is_cut) {
               wire::FairnessReport report = ReportFairness(runs, by, stretch);
               report.is_cut = is_cut;
               return wire::Encode(report);
             });
}

void ReportRoutes::Speeds(ApiCall& call) {
  wire::SpeedsReport report;
  report.runs_needed = static_cast<std::int64_t>(ThroughputModel::kEnough);
  for (const ThroughputModel::Learned* learned : core_.controller().speeds().All()) {
    const bool may_see = call.caller.is_admin || call.caller.user.name == learned->user;
    for (const ThroughputModel::Learned::Model& model : learned->models) {
      wire::SpeedRow row;
      row.user = learned->user;
      row.name = learned->name;
      if (may_see) row.command = learned->shape;
      row.gpus = learned->gpus;
      row.model = model.model;
      row.speed = model.speed / 1000.0;
      row.runs = static_cast<std::int64_t>(model.runs);
      row.by = learned->is_by_progress ? "progress" : "run time";
      report.rows.push_back(std::move(row));
    }
  }
  call.Answer(report);
}

}  // namespace divvy
