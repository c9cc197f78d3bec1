#include "daemon/api/reports/report_routes.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "daemon/api/call/request_query.h"
#include "daemon/api/reports/report_request.h"
#include "daemon/providers/provider_host.h"
#include "daemon/reports/prediction_report.h"
#include "daemon/reports/shares_report.h"
#include "daemon/reports/usage_report.h"
#include "daemon/telemetry/metric_store.h"
#include "wire/messages/messages_reports.h"
#include "wire/messages/messages_teams.h"

namespace divvy {
namespace {

/// The specification of each run is read as well; this many take about a second.
constexpr std::uint64_t kMostRuns = 10'000;
constexpr std::int64_t kUsualSteps = 200;
constexpr std::int64_t kMostSteps = 2'000;

}  // namespace

ReportRoutes::ReportRoutes(ApiContext& api, RouteTable& table) : api_(api), driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/reports/predictions", &ReportRoutes::Predictions},
                   {"GET", "/v1/reports/speeds", &ReportRoutes::Speeds},
                   {"GET", "/v1/reports/usage", &ReportRoutes::Usage},
                   {"GET", "/v1/reports/fairness", &ReportRoutes::Fairness},
                   {"GET", "/v1/reports/shares", &ReportRoutes::Shares}});
}

// Without `since` all runs count, because predictions are not learned from one week only.
void ReportRoutes::Predictions(ApiCall& call) {
  const auto by = ReportByOf(call.request, kWaitingIsBy);
  if (!by) return call.Refuse(by.error());
  const bool is_all = !call.request.query.contains("since");
  auto stretch = StretchOf(call.request, driver_.Now());
  if (!stretch) return call.Refuse(stretch.error());
  if (is_all) stretch->since = kNoTime;
  api_.reader.Read(call, [this, by = *by, stretch = *stretch, own_node = OwnNodeName(ports_)]() -> FinishCall {
    HistoryFilter filter;
    filter.states = {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled, JobState::kTimedOut};
    filter.limit = kMostRuns;
    const auto history = driver_.store().History(filter);
    if (!history) return [error = history.error()](ApiCall& asked) { asked.Refuse(error); };
    std::vector<EndedRun> runs;
    JobId spec_of;
    std::vector<std::string> command;
    for (const JobRecord& record : *history) {
      if (record.array_count > 0 || record.started == kNoTime) continue;
      if (record.spec_of != spec_of) {
        const auto spec = driver_.store().Spec(record.spec_of);
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

void ReportRoutes::Usage(ApiCall& call) {
  const auto by = ReportByOf(call.request, kUsageIsBy);
  if (!by) return call.Refuse(by.error());
  const auto stretch = StretchOf(call.request, driver_.Now());
  if (!stretch) return call.Refuse(stretch.error());
  const double gpus = driver_.controller().scheduler().gpu_count();
  const auto nodes = std::make_shared<std::vector<providers::PricedNode>>();
  if (ports_.providers) *nodes = ports_.providers->NodesBetween(stretch->since, stretch->until);
  ReportRuns(api_, call, *by, *stretch, PastRuns::kCount,
             [by = *by, stretch = *stretch, gpus, nodes](std::vector<ReportedRun>& runs, bool is_cut) {
               std::ranges::sort(*nodes, {}, [](const auto& node) { return std::tie(node.node, node.gone); });
               AddCosts(*nodes, runs);
               wire::UsageReport report = ReportUsage(runs, by, stretch, *nodes);
               report.capacity_gpu_hours = gpus * ToSeconds(stretch.until - stretch.since) / 3600;
               report.is_cut = is_cut;
               // The cost of runs that were not read would count as unused.
               if (is_cut) report.unused_nodes_cost.reset();
               return wire::Encode(report);
             });
}

void ReportRoutes::Fairness(ApiCall& call) {
  const auto by = ReportByOf(call.request, kWaitingIsBy);
  if (!by) return call.Refuse(by.error());
  const auto stretch = StretchOf(call.request, driver_.Now());
  if (!stretch) return call.Refuse(stretch.error());
  ReportRuns(api_, call, *by, *stretch, PastRuns::kCount,
             [by = *by, stretch = *stretch](const std::vector<ReportedRun>& runs, bool is_cut) {
               wire::FairnessReport report = ReportFairness(runs, by, stretch);
               report.is_cut = is_cut;
               return wire::Encode(report);
             });
}

void ReportRoutes::Speeds(ApiCall& call) {
  wire::SpeedsReport report;
  report.runs_needed = static_cast<std::int64_t>(ThroughputModel::kEnough);
  for (const ThroughputModel::Learned* learned : driver_.controller().speeds().All()) {
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

void ReportRoutes::Shares(ApiCall& call) {
  const auto by = ReportByOf(call.request, kSharesAreBy);
  if (!by) return call.Refuse(by.error());
  const auto stretch = StretchOf(call.request, driver_.Now());
  if (!stretch) return call.Refuse(stretch.error());
  const auto points = CountIn(call.request, "points", kUsualSteps, kMostSteps);
  if (!points) return call.Refuse(points.error());
  const auto steps = static_cast<std::size_t>(*points);
  const auto answer = [this, by = *by, stretch = *stretch, steps](ApiCall& asked, const MetricStore::Answer& kept) {
    ReportRuns(api_, asked, by, stretch, PastRuns::kCount,
               [by, stretch, steps, kept](const std::vector<ReportedRun>& runs, bool is_cut) {
                 wire::SharesReport report = ReportShares(runs, by, stretch, steps);
                 AddTeamShares(kept, report);
                 report.is_cut = is_cut;
                 return wire::Encode(report);
               });
  };
  if (*by != ReportBy::kTeam || !ports_.samples) return answer(call, {});
  MetricStore::Question question;
  question.of = samples::Of::kTeam;
  question.range.since = static_cast<samples::Second>(ToSeconds(stretch->since));
  question.range.until = static_cast<samples::Second>(std::ceil(ToSeconds(stretch->until)));
  question.range.points = std::min(steps, samples::kMostChartPoints);
  auto shared = std::make_shared<ApiCall>(std::move(call));
  ports_.samples->Ask(std::move(question), static_cast<samples::Second>(ToSeconds(driver_.Now())),
                      [answer, shared](Result<MetricStore::Answer> kept) -> std::function<void()> {
                        // Without the recorded entitlements, the report shows only held GPUs.
                        if (!kept) return [answer, shared] { answer(*shared, {}); };
                        return [answer, shared, kept = *std::move(kept)] { answer(*shared, kept); };
                      });
}

}  // namespace divvy
