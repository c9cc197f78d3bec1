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
  std::shared_ptr<RootErrands> errands;  // The launcher, which reads the file; null: this process reads it.

  bool is_read_by_launcher() const { return !is_ours && errands != nullptr; }
};

/// Reads a piece of the log. May run on any thread. If the launcher reads the file and its file system does not answer,
/// waits at most RootErrands::kLongestRead (error ETIMEDOUT). In this process, waits until it answers.
LogPiece ReadJobLog(const JobLog& log, const LogRange& range);
/// Reads the same piece, for callers that read repeatedly: `groups` caches the groups of users.
LogPiece ReadJobLog(const JobLog& log, const LogRange& range, UserGroups& groups);

}  // namespace divvy
