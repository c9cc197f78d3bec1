#include "daemon/node/job_log.h"

#include <unistd.h>

#include <cerrno>

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

LogPiece ReadJobLog(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most) {
  UserGroups groups;
  return ReadJobLog(log, at, last, most, groups);
}

LogPiece ReadJobLog(const JobLog& log, std::int64_t at, std::int64_t last, std::size_t most, UserGroups& groups) {
  if (!log.is_ours && log.errands) {
    LogPiece piece;
    piece.next = at;
    auto file = log.errands->OpenLog({log.user.uid, log.user.gid, log.right}, log.path, piece.error);
    if (!file) piece.trouble = file.error().message;
    if (!file) piece.error = EACCES;
    return file && file->is_open() ? ReadOpenLog(*file, at, last, true, most) : piece;
  }
  // A process that is not root cannot change to another user, so it reads with its own rights.
  if (log.is_ours || ::geteuid() != 0) return ReadLog(log.path, at, last, {}, most);
  const auto uid = static_cast<uid_t>(log.user.uid);
  const auto gid = static_cast<gid_t>(log.user.gid);
  return ReadLog(log.path, at, last, {uid, gid, &groups.Of(uid, gid)}, most);
}

}  // namespace divvy
