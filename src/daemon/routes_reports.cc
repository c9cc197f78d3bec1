// The routes of reports: what the store's history says, read beside the loop, and what was learned from it.
#include "daemon/prediction_report.h"
#include "daemon/routes_call.h"
#include "wire/messages_teams.h"

namespace divvy {
namespace {

/// Of each a specification is read as well; so many take about a second.
constexpr std::uint64_t kMostRuns = 10'000;

}  // namespace

void Routes::Predictions(Call& call) {
  ReadAside(call, [this]() -> Finish {
    HistoryFilter filter;
    filter.states = {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled, JobState::kTimedOut};
    filter.limit = kMostRuns;
    const auto history = core_.store().History(filter);
    if (!history) return [error = history.error()](Call& asked) { asked.Refuse(error); };
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
      runs.push_back({record.user.name, record.name, command, record.gpus.size(), record.started, record.ended});
    }
    return [text = wire::Encode(ReportPredictions(std::move(runs)))](Call& asked) { asked.Send(200, text); };
  });
}

void Routes::Speeds(Call& call) {
  wire::SpeedsReport report;
  report.runs_needed = static_cast<std::int64_t>(SpeedBook::kEnough);
  for (const SpeedBook::Learned* learned : core_.controller().speeds().All()) {
    const bool may_see = call.caller.is_admin || call.caller.user.name == learned->user;
    for (const SpeedBook::Learned::Model& model : learned->models) {
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
