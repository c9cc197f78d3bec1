// Facts about the caller that a parser of options or scripts needs: the time, the directory, the environment.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/job.h"

namespace divvy::dialect {

/// Facts about the caller that options and scripts refer to but do not contain. The command-line client fills it.
struct ParseContext {
  Time now = kNoTime;
  Duration utc_offset{0};
  std::string directory;                 // The caller's working directory.
  std::vector<std::string> environment;  // NAME=value.
  std::string home;                      // $HOME.
  std::string user;
  std::string hostname;
  /// Reads a file that a text names (a CSV of parameters, a script). The size is limited.
  std::function<Result<std::string>(const std::string& path)> read_file;
  /// Resolves "@", "@~1" to the caller's last jobs. If not set, such names are refused.
  std::function<Result<JobId>(std::string_view shorthand)> resolve_job;
};

}  // namespace divvy::dialect
