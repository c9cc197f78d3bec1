// `vh`, Valohai's command line, implemented by divvy: steps of a valohai.yaml become jobs of this server.
// docs/valohai.md lists what is supported. Execution #N is divvy's job N.
#pragma once

#include <string>
#include <vector>

namespace divvy::cli {

/// Takes the words after the program's name and returns the exit code.
int VhMain(const std::vector<std::string>& words);

}  // namespace divvy::cli
