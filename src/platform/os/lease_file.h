// Where an agent notes until when the jobs of its machine may run. Their supervisors read it, and stop them when that
// time has come; so they do it also when the agent was killed. Without the file there is no such time.
//
// It is written over in place and not replaced: that needs no room on the disk, for a full one must not end jobs. A
// note that was read half old and half new is none (model/lease_note.h).
#pragma once

#include <string>

#include "base/result.h"
#include "model/lease_note.h"

namespace divvy {

class LeaseFile {
 public:
  explicit LeaseFile(std::string path) : path_(std::move(path)) {}

  /// Does nothing when it says that already. kInternal: it cannot be written, and has been removed, because jobs would
  /// end by an old one though their agent lives.
  Status Keep(const std::string& text);

 private:
  std::string path_;
  std::string kept_;
};

/// kNotFound: there is none. kInternal: it cannot be read, or is no note: what was known before holds.
Result<LeaseNote> ReadLeaseFile(const std::string& path);

}  // namespace divvy
