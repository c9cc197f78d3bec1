// The GPUs on which a job with fractions starts on its node, as the keeper answered.
#pragma once

#include <string>
#include <vector>

#include "model/gpus/gpu.h"

namespace divvy {

struct ShareGrant {
  std::vector<int> gpus;                  // In the order of the job's devices. May differ from the GPUs of the plan.
  GpuSet reachable;                       // GPUs that it may be moved to. The job gets access to them too.
  std::string folder;                     // The tenant's folder. A container mounts it at the same path.
  std::vector<std::string> environment;   // NAME=value, for all of its processes.
  std::vector<std::string> device_files;  // Further device files that the job gets access to.
  bool is_whole = false;                  // The GPUs are the job's alone. It sees them like any job with whole GPUs.
};

}  // namespace divvy
