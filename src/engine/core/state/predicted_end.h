// Sets a prediction for one running job, if more is known about it than about similar jobs, for example its progress.
#pragma once

#include "engine/core/state/cluster.h"

namespace divvy::core {

/// Replaces the prediction that the job started with; kNever: unknown. The time limit is unchanged. Requires: it runs.
void SetPredictedEnd(Cluster& cluster, JobId running, Time end);

}  // namespace divvy::core
