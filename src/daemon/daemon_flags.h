// Command line flags of the daemon process, as passed by `divvy up` or by the unit file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy {

/// An empty string means that the configuration decides.
struct DaemonFlags {
  std::string emulate;
  std::string gpus;
  std::string listen;
  bool is_detached = false;
  bool yields = false;  // Several controllers: the process has just stepped down, and leaves the lease to the others.
};

/// Returns InvalidArgument for an unknown argument.
Result<DaemonFlags> ReadDaemonFlags(const std::vector<std::string>& words);

}  // namespace divvy
