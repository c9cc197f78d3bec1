// The shell script of a Valohai execution: a prologue that creates the configuration files and inputs, then the step's
// commands, which stop at the first failure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace divvy::dialect {

/// Formats `text` as a JSON string, with quotes.
std::string JsonText(std::string_view text);

struct StagedInput {
  std::string source;       // An absolute path, or a URL for curl.
  std::string destination;  // Below $VH_INPUTS_DIR: "dataset/train.csv".
  bool is_url = false;
};

struct ExecutionScript {
  std::vector<std::string> commands;  // With parameters filled in.
  /// Name without suffix -> JSON, written to NAME.json and, because JSON is valid YAML, to NAME.yaml. "@COUNTER@" in a
  /// text is replaced at run time by the job's number, which is unknown before the submission, and "@EXECUTION@" by
  /// the execution's UUID.
  std::vector<std::pair<std::string, std::string>> configuration;
  std::vector<StagedInput> inputs;
  /// The job is an array. Its environment is that of the whole task, so each element changes it to its own.
  bool is_of_array = false;
};

/// Requires VH_CONFIG_DIR, VH_INPUTS_DIR and VH_OUTPUTS_DIR in the environment. A "#!" in the first command stays the
/// script's first line if it names a shell; for another interpreter the commands go into a separate file.
std::string RenderScript(const ExecutionScript& script);

}  // namespace divvy::dialect
