#include "cli/log_file.h"

#include <cerrno>
#include <cstring>

namespace divvy::cli {

std::string LogPath(const wire::JobDetail& job, const LogFlags& flags) {
  return flags.is_error && !job.error.empty() ? job.error : job.output;
}

std::string LogFile::Next() {
  LogPiece piece = reader_ ? reader_(at_, last_) : ReadLog(path_, at_, last_);
  at_ = piece.next;
  error_ = piece.error;
  trouble_ = std::move(piece.trouble);
  return std::move(piece.text);
}

std::string LogFile::trouble() const {
  return !trouble_.empty() ? trouble_ : "cannot read '" + path_ + "': " + std::strerror(error_);
}

LogFile OpenLogFile(Api& api, const wire::JobDetail& job, const LogFlags& flags) {
  const std::string path = LogPath(job, flags);
  if (!api.is_remote() && !IsElsewhere(job)) return {path, flags.last};
  return {path, flags.last,
          [&api, id = ToString(job.id), is_error = flags.is_error](std::int64_t at, std::int64_t last) {
            auto piece = api.Log(id, is_error, at, last);
            if (piece) return *std::move(piece);
            const ErrorCode why = piece.error().code;
            return LogPiece{"", at,
                            why == ErrorCode::kNotFound           ? ENOENT
                            : why == ErrorCode::kPermissionDenied ? EACCES
                                                                  : EIO,
                            piece.error().message};
          }};
}

}  // namespace divvy::cli
