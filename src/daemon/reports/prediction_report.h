// How good predictions of run times are: the jobs that ended, run through engine/run_times.h in the order of their
// ends, as if each had been predicted from those before it.
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

/// Of those that ended in the stretch; all of them are learned from. By hour: that in which they ended. Rows by what
/// kWaitingIsBy has. `is_cut`: there are older runs than these.
wire::PredictionsReport ReportPredictions(std::vector<EndedRun> runs, ReportBy by, const ReportStretch& stretch,
                                          bool is_cut);

}  // namespace divvy
