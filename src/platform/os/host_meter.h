// Measures the use of the node itself: processors, memory, disks and network.
#pragma once

#include <vector>

#include "platform/os/proc_text.h"
#include "platform/os/rate.h"
#include "samples/sample.h"

namespace divvy {

class HostMeter {
 public:
  /// Appends the readings of this machine (processors, memory, disks, network) that are available; rates are available
  /// from the second call on. `seconds`: the time of the call, by a monotonic clock.
  void Look(double seconds, std::vector<samples::Reading>& readings);

 private:
  void LookAtNetwork(double seconds, std::vector<samples::Reading>& readings);

  Rate busy_;
  Rate read_, written_;
  Rate received_, sent_;
  ProcText text_;
};

}  // namespace divvy
