// `vh exec run`: from its words to an ExecutionRequest. The parsing needs no daemon; the submission is in vh_run.cc.
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
  std::string target;  // The step's (or task's) name as written; empty: none was given.
  std::string yaml;    // --yaml PATH; empty: valohai.yaml here or above.
  dialect::ExecutionRequest request;
  std::string parameter_file;
  bool is_adhoc = false;
  bool is_watched = false;
  bool wants_help = false;
  bool sets_gpus = false;  // VH_GPUS is among the variables.
  std::vector<std::string> notes;
};

/// `read_project` is asked once, when the words name a step or the project's options must be known. With `is_task` the
/// name is a task's, whose step gives the options.
Result<VhRun> ParseVhRun(const std::vector<std::string>& words, bool is_task,
                         const std::function<Result<dialect::ValohaiProject>(const std::string& yaml)>& read_project);

/// The project of this directory: its file, where it lies, what it says.
struct VhProject {
  std::string directory;
  std::string name;   // The directory's own, unless --project says otherwise.
  std::string shown;  // The path as messages have it.
  std::string text;
};
Result<VhProject> FindVhProject(const std::string& yaml);

/// Where the directories of executions are: below a private daemon's home, else the user's data directory.
std::string ExecutionsDirectory();

int VhRunMain(const std::vector<std::string>& words, bool is_task, const VhGlobal& global);

}  // namespace divvy::cli
