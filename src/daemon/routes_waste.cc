// Who wastes GPUs now, and what was lost over a stretch of time.
#include "daemon/routes_call.h"
#include "daemon/routes_reports.h"
#include "daemon/sample_book.h"
#include "daemon/waste_book.h"
#include "daemon/waste_report.h"

namespace divvy {
namespace {

samples::Second SecondOf(Time time) { return static_cast<samples::Second>(ToSeconds(time)); }

/// What a report of uses is of.
struct Scope {
  ReportBy by;
  ReportStretch stretch;
};

Result<Scope> ScopeOf(const HttpRequest& request, const SampleBook* samples, Time now) {
  if (samples == nullptr)
    return FailedPrecondition("no samples are taken: [samples] on = false in divvy.toml; set it to true and restart");
  DIVVY_TRY(const ReportBy by, ReportByOf(request, kUsesAreBy));
  DIVVY_TRY(const ReportStretch stretch, StretchOf(request, now));
  return Scope{by, stretch};
}

SampleBook::Stretch UsesOf(const Scope& of) {
  return {SecondOf(of.stretch.since), SecondOf(of.stretch.until),
          of.by == ReportBy::kHour ? SampleBook::Pieces::kHours : SampleBook::Pieces::kWhole};
}

}  // namespace

wire::WasteAnswer Routes::WasteNow() const {
  if (ports_.waste) return ports_.waste->View(core_.controller(), SecondOf(core_.Now()));
  wire::WasteAnswer answer;
  answer.time = ToSeconds(core_.Now());
  answer.is_on = false;
  return answer;
}

void Routes::Waste(Call& call) { call.Answer(WasteNow()); }

void Routes::WasteReport(Call& call) {
  const auto scope = ScopeOf(call.request, ports_.samples.get(), core_.Now());
  if (!scope) return call.Refuse(scope.error());
  auto shared = std::make_shared<Call>(std::move(call));
  ports_.samples->AskUses(UsesOf(*scope), [this, shared, of = *scope](JobUses uses) {
    PriceOfModel price;
    if (!core_.controller().teams().prices().empty()) {
      // By a copy: the report is made on another thread.
      price = [teams = core_.controller().teams()](const std::string& model) {
        return static_cast<double>(teams.PriceOf(model)) / 1000;
      };
    }
    ReportRuns(*shared, of.by, of.stretch, PastRuns::kLeaveOut,
               [uses = std::move(uses), of, price = std::move(price), now = WasteNow()](
                   const std::vector<ReportedRun>& runs, bool is_cut) {
                 wire::WasteReport report = ReportWaste(runs, uses, of.by, of.stretch, price);
                 report.is_cut = is_cut;
                 report.now = now;
                 return wire::Encode(report);
               });
  });
}

void Routes::Efficiency(Call& call) {
  const auto scope = ScopeOf(call.request, ports_.samples.get(), core_.Now());
  if (!scope) return call.Refuse(scope.error());
  auto shared = std::make_shared<Call>(std::move(call));
  ports_.samples->AskUses(UsesOf(*scope), [this, shared, of = *scope](JobUses uses) {
    ReportRuns(*shared, of.by, of.stretch, PastRuns::kLeaveOut,
               [uses = std::move(uses), of](const std::vector<ReportedRun>& runs, bool is_cut) {
                 wire::EfficiencyReport report = ReportEfficiency(runs, uses, of.by, of.stretch);
                 report.is_cut = is_cut;
                 return wire::Encode(report);
               });
  });
}

}  // namespace divvy
