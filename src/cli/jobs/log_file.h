// Logs of jobs, which may still grow or not be there yet: files that are read with the caller's own rights, or with
// those of the job's user by whoever is on the machine where they are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "cli/client/api.h"
#include "platform/users/read_log.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

struct LogFlags {
  bool follows = false;
  bool is_error = false;   // The job's error file, where it has one of its own.
  bool is_path = false;    // The file's name only.
  std::int64_t last = -1;  // Only so many lines; -1: all.
  std::int64_t run = 0;    // Where this run of it was; 0: the last.
};

/// Where the job's output, or its errors, are; empty where the caller may not know.
std::string LogPath(const wire::JobDetail& job, const LogFlags& flags);

/// It ran, or runs, on an agent's machine.
inline bool IsElsewhere(const wire::JobDetail& job) { return !job.node.empty(); }

class LogFile {
 public:
  /// As ReadLog, of one file.
  using Reader = std::function<LogPiece(std::int64_t at, std::int64_t last)>;
  /// Reading begins before the last `last` lines that are there at the first reading; -1: at the start. `reader` reads
  /// instead of this machine.
  LogFile(std::string path, std::int64_t last, Reader reader = {})
      : path_(std::move(path)), last_(last), reader_(std::move(reader)) {}

  /// What has come since the last call, about a megabyte at most; "" for nothing. Keeps no file open.
  std::string Next();
  /// How many bytes before the last piece were dropped before they could be read (`log_limit`).
  std::int64_t dropped() const { return dropped_; }
  /// Why the file could not be read (errno); 0 once it could.
  int error() const { return error_; }
  /// The same in words.
  std::string trouble() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::int64_t last_;
  Reader reader_;
  std::int64_t at_ = -1;  // -1: not read yet.
  std::int64_t dropped_ = 0;
  int error_ = 0;
  std::string trouble_;
};

/// Says on standard error what is missing before the last piece, where something is. `name`: of the job.
void NoteDropped(const LogFile& file, const std::string& name);

/// `api` must outlive it.
LogFile OpenLogFile(Api& api, const wire::JobDetail& job, const LogFlags& flags);

/// The logs of all elements of an array, each under a heading. With flags.follows until the array has ended. The exit
/// code.
int PrintArrayLogs(Api& api, const wire::JobDetail& array, const LogFlags& flags);

}  // namespace divvy::cli
