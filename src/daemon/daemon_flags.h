// What the daemon's process is told on its command line by those who start it (divvy up, the unit file).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy {

/// Empty: as the configuration says.
struct DaemonFlags {
  std::string emulate;
  std::string gpus;
  std::string listen;
  bool is_detached = false;
};

/// InvalidArgument for a word that is none of them.
Result<DaemonFlags> ReadDaemonFlags(const std::vector<std::string>& words);

}  // namespace divvy
