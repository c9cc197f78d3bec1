// The file in which an agent records until when the jobs of its node may run. The jobs' supervisors read it and stop
// the jobs at that time, even if the agent was killed. Without the file the jobs have no such limit.
//
// The file is overwritten in place and not replaced: this needs no free disk space, because a full disk must not end
// jobs. A reader rejects a note that it read half old and half new (model/lease_note.h).
#pragma once

#include <string>

#include "base/result.h"
#include "model/lease_note.h"

namespace divvy {

class LeaseFile {
 public:
  explicit LeaseFile(std::string path) : path_(std::move(path)) {}

  /// Writes `text`, the agent's note until when jobs may run, unless the file already holds this text. kInternal: the
  /// file could not be written. It was then removed, because an old note would end the jobs although their agent is
  /// alive.
  Status Keep(const std::string& text);

 private:
  std::string path_;
  std::string kept_;
};

/// Reads an agent's note until when the jobs of its node may run. Errors: kNotFound if there is no file; kInternal if
/// it cannot be read or is not a valid note. On kInternal the caller keeps the last note that it read.
Result<LeaseNote> ReadLeaseFile(const std::string& path);

}  // namespace divvy
