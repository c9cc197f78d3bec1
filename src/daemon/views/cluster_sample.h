// Samples the cluster as a whole each second: the number of GPUs in total, allocated and used, the number of waiting
// and running jobs, and each team's entitlement.
#pragma once

#include "control/controller/controller.h"
#include "daemon/telemetry/metric_store.h"

namespace divvy {

class ClusterSampler {
 public:
  samples::Snapshot Look(const Controller& controller, const MetricStore& store, samples::Second now);

 private:
  static void AddTeams(const Controller& controller, samples::Snapshot& snapshot);

  double queued_ = 0;  // Counted each second while there are few jobs, otherwise every ten seconds.
};

}  // namespace divvy
