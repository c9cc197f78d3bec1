// Where a job's output lies on the machine where it ran, and pieces of it. Read with the rights of the job's user: the
// file may be any that the job named. The log that divvy keeps is divvy's, in a folder that users may not look into.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/node/node.h"
#include "platform/users/read_log.h"
#include "platform/users/user_identity.h"

namespace divvy {

/// With all patterns filled as on the machine of these names; `log_directory`: there. Empty: a foreground job's, on its
/// caller's terminal; no error file of its own.
std::string OutputPath(const JobRecord& record, const JobSpec& spec, const NodeNames& names,
                       const std::string& log_directory);
std::string ErrorPath(const JobRecord& record, const JobSpec& spec, const NodeNames& names);

struct JobLog {
  std::string path;
  bool is_ours = false;                  // The log that divvy keeps.
  User user;                             // With whose rights another one is read;
  UserRight right = {};                  // the right to these,
  std::shared_ptr<RootErrands> errands;  // and who opens it; null: we do it ourselves.
};

/// `is_error`: its error file, where it has one of its own.
JobLog JobLogOf(const Node& node, const JobRecord& record, const JobSpec& spec, bool is_error);
/// As ReadLog; `most`: bytes of the piece. On any thread; files on servers that are away may keep it waiting.
LogPiece ReadJobLog(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most = kLogPieceBytes);
/// The same for who reads again and again: `groups` remembers those of users.
LogPiece ReadJobLog(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most, UserGroups& groups);

}  // namespace divvy
