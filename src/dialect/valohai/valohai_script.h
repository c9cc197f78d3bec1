// The shell script that a Valohai execution becomes: a prologue that lays out the configuration files and the inputs,
// then the step's commands, stopping at the first that fails.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace divvy::dialect {

/// `text` as a JSON string, quotes included.
std::string JsonText(std::string_view text);

struct StagedInput {
  std::string source;       // An absolute path, or a url that curl reads.
  std::string destination;  // Below $VH_INPUTS_DIR: "dataset/train.csv".
  bool is_url = false;
};

struct ExecutionScript {
  std::vector<std::string> commands;  // Filled.
  /// Name without suffix -> JSON, written as NAME.json and, since JSON is YAML, as NAME.yaml. "@COUNTER@" in a text is
  /// the job's number, which nobody knows before the submission.
  std::vector<std::pair<std::string, std::string>> configuration;
  std::vector<StagedInput> inputs;
};

/// Needs VH_CONFIG_DIR, VH_INPUTS_DIR and VH_OUTPUTS_DIR in the environment. A "#!" in the first command stays the
/// script's first line when it names a shell; another interpreter gets the commands as a file of their own.
std::string RenderScript(const ExecutionScript& script);

}  // namespace divvy::dialect
