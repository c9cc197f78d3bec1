// How the machine itself is used: processors, memory, disks, network.
#pragma once

#include <vector>

#include "platform/os/proc_text.h"
#include "platform/os/rate.h"
#include "samples/sample.h"

namespace divvy {

class HostMeter {
 public:
  /// Appends what is known; rates from the second look on. `seconds`: of a clock that only grows.
  void Look(double seconds, std::vector<samples::Reading>& readings);

 private:
  void LookAtNetwork(double seconds, std::vector<samples::Reading>& readings);

  Rate busy_;
  Rate read_, written_;
  Rate received_, sent_;
  ProcText text_;
};

}  // namespace divvy
