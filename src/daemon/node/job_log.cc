#include "daemon/node/job_log.h"

#include <unistd.h>

namespace divvy {
namespace {

std::string Absolute(const std::string& path, const std::string& directory) {
  if (path.empty() || path.front() == '/') return path;
  return directory + "/" + path;
}

}  // namespace

std::string OutputPath(const JobRecord& record, const JobSpec& spec, const NodeNames& names,
                       const std::string& log_directory) {
  if (!spec.output.empty()) return Absolute(FillPattern(spec.output, record, names), spec.directory);
  return spec.is_foreground ? "" : log_directory + "/" + ToString(record.id) + ".log";
}

std::string ErrorPath(const JobRecord& record, const JobSpec& spec, const NodeNames& names) {
  return spec.error.empty() ? "" : Absolute(FillPattern(spec.error, record, names), spec.directory);
}

LogPiece ReadJobLog(const JobLog& log, const LogRange& range) {
  UserGroups groups;
  return ReadJobLog(log, range, groups);
}

LogPiece ReadJobLog(const JobLog& log, const LogRange& range, UserGroups& groups) {
  if (log.is_read_by_launcher()) return log.errands->ReadLog({log.user.uid, log.user.gid, log.right}, log.path, range);
  // A process that is not root cannot change to another user, so it reads with its own rights.
  if (log.is_ours || ::geteuid() != 0) return ReadLog(log.path, range);
  const auto uid = static_cast<uid_t>(log.user.uid);
  const auto gid = static_cast<gid_t>(log.user.gid);
  return ReadLog(log.path, range, {uid, gid, &groups.Of(uid, gid)});
}

}  // namespace divvy
