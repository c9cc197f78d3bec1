// The cluster as a whole in one second: how many GPUs there are, are given away and are used, how many jobs wait and
// run; and what each team may hold of it.
#pragma once

#include "control/controller/controller.h"
#include "daemon/telemetry/sample_book.h"

namespace divvy {

class ClusterSampler {
 public:
  samples::Snapshot Look(const Controller& controller, const SampleBook& book, samples::Second now);

 private:
  static void AddTeams(const Controller& controller, samples::Snapshot& snapshot);

  double queued_ = 0;  // Counted each second while there are few jobs, else every ten.
};

}  // namespace divvy
