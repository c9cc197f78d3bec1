// Logs of jobs as files that are read with the caller's own rights, and that may still grow or not be there yet.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "cli/api.h"
#include "wire/messages.h"

namespace divvy::cli {

struct LogFlags {
  bool follows = false;
  bool is_error = false;   // The job's error file, where it has one of its own.
  bool is_path = false;    // The file's name only.
  std::int64_t last = -1;  // Only so many lines; -1: all.
};

/// Where the job's output, or its errors, are; empty where the caller may not know.
std::string LogPath(const wire::JobDetail& job, const LogFlags& flags);

class LogFile {
 public:
  /// Reading begins before the last `last` lines that are there at the first reading; -1: at the start.
  LogFile(std::string path, std::int64_t last) : path_(std::move(path)), last_(last) {}

  /// What has come since the last call, about a megabyte at most; "" for nothing. Keeps no file open.
  std::string Next();
  /// Why the file could not be read (errno); 0 once it could.
  int error() const { return error_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::int64_t last_;
  off_t at_ = -1;  // -1: not read yet.
  int error_ = 0;
};

/// The logs of all elements of an array, each under a heading. With flags.follows until the array has ended. The exit
/// code.
int PrintArrayLogs(Api& api, const wire::JobDetail& array, const LogFlags& flags);

}  // namespace divvy::cli
