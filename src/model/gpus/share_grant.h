// Where a job with parts of GPUs begins on its node, as the keeper said it.
#pragma once

#include <string>
#include <vector>

#include "model/gpus/gpu.h"

namespace divvy {

struct ShareGrant {
  std::vector<int> gpus;                  // By its devices; by the plan they may be others.
  GpuSet reachable;                       // To which it may be moved: open to it besides.
  std::string folder;                     // The tenant's own; a container has it at the same path.
  std::vector<std::string> environment;   // NAME=value, for all of its processes.
  std::vector<std::string> device_files;  // Open to it beside its GPUs.
};

}  // namespace divvy
