// What is predicted of one running job alone, where more is known of it than of its like: by its own progress, say.
#pragma once

#include "engine/core/state/cluster.h"

namespace divvy::core {

/// In place of the prediction that it started with; kNever: nothing is known any more. Its time limit stays what it is.
/// Requires: it runs.
void SetPredictedEnd(Cluster& cluster, JobId running, Time end);

}  // namespace divvy::core
