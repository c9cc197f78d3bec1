// Files of services, for divvy serve apply: YAML with a list of services. Every key of a service, except its name and
// command, is an option of divvy serve create.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::dialect {

struct ServiceEntry {
  int line = 0;
  std::string name;
  std::vector<std::string> options;  // "--gpus=0.5"
  std::vector<std::string> command;
};

/// Fails with the first mistake and its line. Refuses texts above 1 MiB. Does not check the options; the caller parses
/// them as those of divvy serve create.
Result<std::vector<ServiceEntry>> ReadServiceFile(std::string_view text, std::string_view path);

}  // namespace divvy::dialect
