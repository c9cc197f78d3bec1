// Measures the accuracy of run time predictions: replays ended jobs through engine/run_times.h in the order of their
// ends, as if each had been predicted from the jobs before it.
#pragma once

#include <string>
#include <vector>

#include "daemon/reports/usage_report.h"
#include "wire/messages/messages_teams.h"

namespace divvy {

struct EndedRun {
  ReportedRun run;
  std::vector<std::string> command;
  int gpus = 0;
};

/// Reports how accurate the predictions are for jobs that ended in the period. The predictor learns from all `runs`,
/// also from earlier ones. `by` says what the rows are and must be in kWaitingIsBy; if they are hours, a job belongs to
/// the hour of its end. `is_cut`: `runs` lacks the oldest runs.
wire::PredictionsReport ReportPredictions(std::vector<EndedRun> runs, ReportBy by, const ReportStretch& stretch,
                                          bool is_cut);

}  // namespace divvy
