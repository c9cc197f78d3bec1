// The parts of gbatch that need no daemon.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

/// The argv of gbatch's words. One word with shell syntax ("a && b") runs by sh -c; words that hold
/// $GFLOW_ARRAY_TASK_ID do too, with everything else in them quoted, since gflow's examples pass it in single quotes.
std::vector<std::string> GbatchCommand(const std::vector<std::string>& words);
/// The name that a command gives its job: the base name of its first word, for shell text of the first word inside.
std::string GbatchName(const std::vector<std::string>& words);
/// A verb of another gflow program that was meant ("gbatch queue"): what to write instead, or "".
std::string MistakenVerb(const std::vector<std::string>& words, bool is_program);
/// What `gbatch new` writes.
std::string GbatchTemplate(std::string_view name);

}  // namespace divvy::cli
