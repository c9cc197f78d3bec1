// The parts of gbatch that need no daemon.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// Turns gbatch's words into an argv. A single word with shell syntax ("a && b") runs with sh -c. So do words with
/// $GFLOW_ARRAY_TASK_ID, with everything else in them quoted, because gflow's examples use single quotes.
std::vector<std::string> GbatchCommand(const std::vector<std::string>& words);
/// The default job name: the base name of the command's first word, or of the first word of the shell text.
std::string GbatchName(const std::vector<std::string>& words);
/// If the user meant another gflow program ("gbatch queue"), returns what to write instead, else "".
std::string MistakenVerb(const std::vector<std::string>& words, bool is_program);
/// The template that `gbatch new` writes.
std::string GbatchTemplate(std::string_view name);

}  // namespace divvy::cli
