// `vh`, Valohai's command line, spoken by divvy: steps of a valohai.yaml become jobs of this server. docs/valohai.md is
// the list of what applies. Execution #N is divvy's job N.
#pragma once

#include <string>
#include <vector>

namespace divvy::cli {

/// The words after the program's name; the answer is the exit code.
int VhMain(const std::vector<std::string>& words);

}  // namespace divvy::cli
