// The messages of sweeps (GET /v1/sweeps, GET /v1/sweeps/ID, POST /v1/sweeps/ID/tell). See messages.h for the
// conventions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::wire {

struct SweepView {
  JobId id;  // The id of its array.
  std::string name;
  std::string user;
  std::string state;   // "running", "ended"
  std::string method;  // "grid", "random", "ask"
  std::string metric;  // Empty: the sweep compares nothing.
  std::string goal;    // "minimize", "maximize"
  std::string resource;
  std::optional<double> target;
  std::string early_terminate;  // "none", "asha", "asha_promotion", "hyperband"
  double min_iter = 0;
  double max_iter = 0;  // 0: unknown.
  std::int64_t eta = 0;
  bool park_losers = false;
  std::int64_t parallel = 0;  // 0: as many as fit.
  std::int64_t trials = 0;
  // How many trials are in which state.
  std::int64_t waiting = 0;
  std::int64_t running = 0;
  std::int64_t paused = 0;
  std::int64_t parked = 0;   // The part of `paused` that is parked in host memory.
  std::int64_t stopped = 0;  // By the sweep.
  std::int64_t ended = 0;
  std::int64_t wanted = 0;  // How many trials need parameters now (divvy sweep tell).
  std::optional<std::int64_t> best_trial;
  std::optional<double> best;
  std::string note;  // Why it ended, or a problem of all its trials.
};

struct SweepTrialView {
  JobId id;
  std::int64_t trial = 0;
  std::string state;  // "waiting", "running", "paused", "parked", "stopped"; how it ended: "succeeded", "failed", ...
  std::map<std::string, std::string> parameters;
  std::optional<double> best;  // The metric; `best_at` is the resource then.
  double best_at = 0;
  std::optional<double> last;  // Null also if it was NaN.
  double last_at = 0;
  std::vector<std::optional<double>> rungs;  // The metric at each rung; null: NaN.
  std::string note;                          // Why it was stopped or paused, or what is wrong with its reports.
};

struct SweepDetail : SweepView {
  std::vector<std::string> parameters;  // Names, in the order of the file.
  std::vector<SweepTrialView> list;     // All trials that have begun, by number.
};

struct SweepTell {
  std::map<std::string, std::string> parameters;
};
struct SweepTold {
  JobId id;
  std::int64_t trial = 0;
};

}  // namespace divvy::wire
