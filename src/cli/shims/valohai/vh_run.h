// `vh exec run`: parses its words into an ExecutionRequest without a daemon. The submission is in vh_run.cc.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/shims/valohai/vh_text.h"
#include "dialect/valohai/valohai.h"

namespace divvy::cli {

struct VhGlobal {
  VhFormat format = VhFormat::kHuman;
  std::string project;  // --project
};

struct VhRun {
  std::string target;  // The step's (or task's) name as written. Empty if none was given.
  std::string yaml;    // --yaml PATH. Empty: valohai.yaml in this directory or above.
  dialect::ExecutionRequest request;
  std::string parameter_file;
  bool is_adhoc = false;
  bool is_watched = false;
  bool wants_help = false;
  bool sets_gpus = false;  // VH_GPUS is among the variables.
  std::vector<std::string> notes;
};

/// Parses the words of `vh exec run`, or of `vh task run` with `is_task`. `is_task`: the name is that of a task, and
/// the options are the parameters and inputs of the task's step. Calls `read_project` at most once, when the step's or
/// task's definition is needed.
Result<VhRun> ParseVhRun(const std::vector<std::string>& words, bool is_task,
                         const std::function<Result<dialect::ValohaiProject>(const std::string& yaml)>& read_project);

/// The project of this directory: its file, directory and content.
struct VhProject {
  std::string directory;
  std::string name;   // The directory's name, unless --project overrides it.
  std::string shown;  // The path to show in messages.
  std::string text;
};
Result<VhProject> FindVhProject(const std::string& yaml);

/// Returns the directory that stores the files of executions: in the home directory of a private daemon, else in the
/// user's data directory.
std::string ExecutionsDirectory();

int VhRunMain(const std::vector<std::string>& words, bool is_task, const VhGlobal& global);

}  // namespace divvy::cli
