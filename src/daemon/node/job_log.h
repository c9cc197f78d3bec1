// Finds a job's output file on the node where the job ran, and reads pieces of it. The file is read with the rights of
// the job's user, because the job may have named any file. The log that divvy keeps belongs to divvy, in a folder that
// users cannot read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/job_record.h"
#include "node/job_environment.h"
#include "platform/supervisor/root_errand.h"
#include "platform/users/read_log.h"
#include "platform/users/user_identity.h"

namespace divvy {

/// The paths with all patterns filled in for the node with these names; `log_directory` is the folder on that node. An
/// empty output path means the terminal of a foreground job's caller. An empty error path means that the job has no
/// separate error file.
std::string OutputPath(const JobRecord& record, const JobSpec& spec, const NodeNames& names,
                       const std::string& log_directory);
std::string ErrorPath(const JobRecord& record, const JobSpec& spec, const NodeNames& names);

struct JobLog {
  std::string path;
  bool is_ours = false;                  // True for the log that divvy keeps.
  User user;                             // The user with whose rights any other file is read.
  UserRight right = {};                  // The right to act as `user`.
  std::shared_ptr<RootErrands> errands;  // Opens the file on our behalf; null: we open it ourselves.
};

/// Like ReadLog; `most` limits the bytes of the piece. May run on any thread. Blocks while a file server does not
/// answer.
LogPiece ReadJobLog(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most = kLogPieceBytes);
/// The same for repeated reads: `groups` caches the groups of users.
LogPiece ReadJobLog(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most, UserGroups& groups);

}  // namespace divvy
