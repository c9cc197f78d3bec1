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

/// Reports on the jobs that ended in the period; the predictor learns from all `runs`. By hour, a job belongs to the
/// hour of its end. `by` must be in kWaitingIsBy. `is_cut`: there are older runs than these.
wire::PredictionsReport ReportPredictions(std::vector<EndedRun> runs, ReportBy by, const ReportStretch& stretch,
                                          bool is_cut);

}  // namespace divvy
