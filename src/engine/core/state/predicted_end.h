// Sets a prediction for one running job, if more is known about it than about similar jobs, for example its progress.
#pragma once

#include "engine/core/state/cluster.h"

namespace divvy::core {

/// Replaces the end that was predicted for the job when it started; kNever: unknown. Its time limit stays the same.
/// Requires: the job runs.
void SetPredictedEnd(Cluster& cluster, JobId running, Time end);

}  // namespace divvy::core
