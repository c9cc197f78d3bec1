// The routes of reports: what the store's history says, read beside the loop.
#include "daemon/prediction_report.h"
#include "daemon/routes_call.h"

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

}  // namespace divvy
