// An estimate of how long a job will run, from similar jobs.
#pragma once

#include <functional>
#include <optional>

#include "base/id.h"
#include "base/time.h"
#include "model/job.h"

namespace divvy::core {

/// The run time distribution of similar jobs: one in ten is shorter than `low`, one in ten longer than `high`
/// (engine/run_times.h).
struct RunSpread {
  Duration low{0};
  Duration high{0};
};
/// Function that returns the distribution of run times of jobs like this one, which runs or waits; nullopt if unknown.
using SpreadOf = std::function<std::optional<RunSpread>(JobId)>;

}  // namespace divvy::core
