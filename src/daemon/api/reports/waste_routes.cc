#include "daemon/api/reports/waste_routes.h"

#include "daemon/api/call/job_lookup.h"
#include "daemon/api/reports/report_request.h"
#include "daemon/telemetry/metric_store.h"
#include "daemon/views/job_selector.h"
#include "daemon/waste/waste_ended.h"
#include "daemon/waste/waste_report.h"
#include "daemon/waste/waste_tracker.h"
#include "samples/run_waste.h"
#include "wire/messages/series_messages.h"

namespace divvy {
namespace {

samples::Second SecondOf(Time time) { return static_cast<samples::Second>(ToSeconds(time)); }

/// The rows and the period of a report.
struct Scope {
  ReportBy by;
  ReportStretch stretch;
};

Error NoSamples() { return FailedPrecondition(std::string(wire::kSamplesDisabled)); }

Result<Scope> ScopeOf(const HttpRequest& request, const MetricStore* samples, Time now) {
  if (samples == nullptr) return NoSamples();
  DIVVY_TRY(const ReportBy by, ReportByOf(request, kUsesAreBy));
  DIVVY_TRY(const ReportStretch stretch, StretchOf(request, now));
  return Scope{by, stretch};
}

MetricStore::Stretch UsesOf(const Scope& of) {
  return {SecondOf(of.stretch.since), SecondOf(of.stretch.until),
          of.by == ReportBy::kHour ? MetricStore::Pieces::kHours : MetricStore::Pieces::kWhole};
}

/// Returns the rules of the daemon, or the defaults if it does not watch for waste.
WasteRules RulesOf(const WasteTracker* waste) { return waste != nullptr ? waste->rules() : WasteRules(); }

}  // namespace

WasteRoutes::WasteRoutes(ApiContext& api, RouteTable& table) : api_(api), driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/waste", &WasteRoutes::Waste},
                   {"GET", "/v1/jobs/*/waste", &WasteRoutes::JobWaste},
                   {"GET", "/v1/reports/waste", &WasteRoutes::WasteReport},
                   {"GET", "/v1/reports/efficiency", &WasteRoutes::Efficiency}});
}

wire::WasteAnswer WasteRoutes::WasteNow() const {
  if (ports_.waste) return ports_.waste->View(driver_.controller(), SecondOf(driver_.Now()));
  wire::WasteAnswer answer;
  answer.time = ToSeconds(driver_.Now());
  answer.is_on = false;
  return answer;
}

void WasteRoutes::Waste(ApiCall& call) { call.Answer(WasteNow()); }

// The use of a waiting job belongs to an earlier run; the reports include it.
void WasteRoutes::JobWaste(ApiCall& call) {
  if (ports_.samples == nullptr) return call.Refuse(NoSamples());
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  FoundJob found = FindHere(driver_, *id);
  api_.reader.ReadUnless(
      found.record.has_value(), call, [this, id = *id, found = std::move(found)]() mutable -> FinishCall {
        if (const Status done = Complete(driver_.store(), id, found); !done) return RefuseMissing(done, found);
        return [this, record = *found.record](ApiCall& asked) {
          auto shared = std::make_shared<ApiCall>(std::move(asked));
          const Time end = IsFinal(record.state) ? record.ended : driver_.Now();
          ports_.samples->AskUsesOf(record.id.value(), {SecondOf(record.started)}, SecondOf(end) + 1,
                                    [this, shared, record](const std::vector<samples::JobUse>& uses) {
                                      const auto answer = [this, shared, record, use = uses.front()](
                                                              std::vector<wire::WasteFinding> findings) {
                                        AnswerWaste(*shared, record, use, std::move(findings));
                                      };
                                      if (!IsFinal(record.state)) return answer(FindingsNow(WasteNow(), record.id));
                                      if (!ports_.waste) return answer({});
                                      AskEndedWaste(*ports_.samples, *ports_.waste, driver_.controller(), record,
                                                    SecondOf(driver_.Now()), answer);
                                    });
        };
      });
}

// `use` covers the whole run.
void WasteRoutes::AnswerWaste(ApiCall& call, const JobRecord& record, const samples::JobUse& use,
                              std::vector<wire::WasteFinding> findings) {
  wire::JobWaste waste;
  waste.id = record.id;
  waste.display_id = DisplayId(record);
  waste.has_ended = IsFinal(record.state);
  std::vector<ReportedRun> runs;
  AddRunOf(record, ReportBy::kUser, OwnNodeName(ports_), runs);
  const RunHours hours =
      record.array_count > 0 || runs.front().started == kNoTime ? RunHours() : HoursOf(runs.front(), use);
  if (hours.known <= 0) return call.Answer(waste);
  waste.gpu_hours = hours.known;
  waste.lost_gpu_hours = hours.lost();
  waste.idle_gpu_hours = hours.idle;
  waste.lost_share = hours.lost() / hours.known;
  waste.lost_cost = CostOf(hours.lost(), record, driver_.controller());
  waste.findings = std::move(findings);
  const Time end = waste.has_ended ? record.ended : driver_.Now();
  waste.is_small = waste.findings.empty() &&
                   !samples::IsWorthTelling(hours.lost(), end - record.started, RulesOf(ports_.waste.get()));
  call.Answer(waste);
}

void WasteRoutes::WasteReport(ApiCall& call) {
  const auto scope = ScopeOf(call.request, ports_.samples.get(), driver_.Now());
  if (!scope) return call.Refuse(scope.error());
  auto shared = std::make_shared<ApiCall>(std::move(call));
  ports_.samples->AskUses(UsesOf(*scope), [this, shared, of = *scope](JobUses uses, MetricStore::Kept kept) {
    PriceOfModel price;
    if (!driver_.controller().teams().prices().empty()) {
      // A copy, because the report is made on another thread.
      price = [teams = driver_.controller().teams()](const std::string& model) {
        return static_cast<double>(teams.PriceOf(model)) / 1000;
      };
    }
    wire::WasteAnswer now = WasteNow();
    std::vector<JobId> first_runs;
    for (const wire::WastefulJob& job : now.jobs) {
      const JobRecord* const record = driver_.controller().Find(job.id);
      if (record != nullptr && record->restarts == 0) first_runs.push_back(job.id);
    }
    ReportRuns(api_, *shared, of.by, of.stretch, PastRuns::kLeaveOut,
               [uses = std::move(uses), kept = std::move(kept), of, price = std::move(price),
                rules = RulesOf(ports_.waste.get()), now = std::move(now),
                first_runs = std::move(first_runs)](const std::vector<ReportedRun>& runs, bool is_cut) {
                 wire::WasteReport report = ReportWaste(runs, uses, of.by, of.stretch, price, rules);
                 report.is_cut = is_cut;
                 report.now = now;
                 CountNowAsRows(runs, uses, of.stretch, price, first_runs, report);
                 AddFindings(runs, kept, report);
                 return wire::Encode(report);
               });
  });
}

void WasteRoutes::Efficiency(ApiCall& call) {
  const auto scope = ScopeOf(call.request, ports_.samples.get(), driver_.Now());
  if (!scope) return call.Refuse(scope.error());
  auto shared = std::make_shared<ApiCall>(std::move(call));
  ports_.samples->AskUses(UsesOf(*scope), [this, shared, of = *scope](JobUses uses, const MetricStore::Kept&) {
    ReportRuns(api_, *shared, of.by, of.stretch, PastRuns::kLeaveOut,
               [uses = std::move(uses), of](const std::vector<ReportedRun>& runs, bool is_cut) {
                 wire::EfficiencyReport report = ReportEfficiency(runs, uses, of.by, of.stretch);
                 report.is_cut = is_cut;
                 return wire::Encode(report);
               });
  });
}

}  // namespace divvy
