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

/// Return the paths of a job's output and error file, with all patterns (such as %j) filled in for the node with these
/// names. `log_directory` is the folder of the logs that divvy keeps on that node. An empty output path means the
/// terminal of a foreground job's caller. An empty error path means that the job has no separate error file.
std::string OutputPath(const JobRecord& record, const JobSpec& spec, const NodeNames& names,
                       const std::string& log_directory);
std::string ErrorPath(const JobRecord& record, const JobSpec& spec, const NodeNames& names);

struct JobLog {
  std::string path;
  bool is_ours = false;                  // True for the log that divvy keeps, false for a file that the user named.
  User user;                             // A file that the user named is read with the rights of this user.
  UserRight right = {};                  // The right to act as `user`.
  std::shared_ptr<RootErrands> errands;  // The launcher, which opens the file; null: this process opens it.
};

/// Reads a piece of at most `most` bytes from byte `at` on. If `at` is -1, starts before the last `last` lines, or at
/// the start of the file if `last` is -1 too (ReadLog in platform/users/read_log.h). May run on any thread. Blocks
/// while a file server does not answer.
LogPiece ReadJobLog(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most = kLogPieceBytes);
/// Reads the same piece, for callers that read repeatedly: `groups` caches the groups of users.
LogPiece ReadJobLog(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most, UserGroups& groups);

}  // namespace divvy
