// Log files of jobs, which may still grow or not exist yet. They are read with the caller's own rights, or with those
// of the job's user by the process that runs on the node with the file.
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
  bool is_error = false;   // The job's error file, if it has a separate one.
  bool is_path = false;    // Print only the file's name.
  std::int64_t last = -1;  // Only this many lines from the end; -1: all.
  std::int64_t run = 0;    // Number of the run to show; 0: the last.
};

/// Path of the job's output or error file; empty if the caller may not know it.
std::string LogPath(const wire::JobDetail& job, const LogFlags& flags);

/// True if the job ran, or runs, on an agent's node.
inline bool IsElsewhere(const wire::JobDetail& job) { return !job.node.empty(); }

class LogFile {
 public:
  /// Reads a piece of the log. The arguments and the result are those of ReadLog (platform/users/read_log.h), without
  /// the path.
  using Reader = std::function<LogPiece(std::int64_t at, std::int64_t last)>;
  /// Starts before the last `last` lines that exist at the first read; -1: at the beginning. If set, `reader` replaces
  /// reading from this machine.
  LogFile(std::string path, std::int64_t last, Reader reader = {})
      : path_(std::move(path)), last_(last), reader_(std::move(reader)) {}

  /// Returns what was added since the last call, about a megabyte at most; "" for nothing. Keeps no file open.
  std::string Next();
  /// How many bytes before the last piece were dropped before they could be read (`log_limit`).
  std::int64_t dropped() const { return dropped_; }
  /// The errno that says why the file could not be read; 0 once a read has succeeded.
  int error() const { return error_; }
  /// `error()` as text.
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

/// Prints a note to standard error if bytes before the last piece were dropped, with their number. `name` is the job's
/// name, for the note.
void NoteDropped(const LogFile& file, const std::string& name);

/// Returns the job's output or error file (flags.is_error). Files on other nodes, and those of earlier runs, are read
/// through `api`, which must outlive the result.
LogFile OpenLogFile(Api& api, const wire::JobDetail& job, const LogFlags& flags);

/// Prints the logs of all elements of an array, each under a heading. With flags.follows, continues until the array has
/// ended. Returns the exit code.
int PrintArrayLogs(Api& api, const wire::JobDetail& array, const LogFlags& flags);

}  // namespace divvy::cli
