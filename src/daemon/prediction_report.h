// How good predictions of run times are: the jobs that ended, run through engine/run_times.h in the order of their
// ends, as if each had been predicted from those before it.
#pragma once

#include <string>
#include <vector>

#include "model/job_record.h"
#include "wire/messages_teams.h"

namespace divvy {

struct EndedRun {
  std::string user;
  std::string name;
  std::vector<std::string> command;
  int gpus = 0;
  Time started = kNoTime;
  Time ended = kNoTime;
};

wire::PredictionsReport ReportPredictions(std::vector<EndedRun> runs);

}  // namespace divvy
