#include "cli/jobs/log_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/client/command.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {

std::string LogPath(const wire::JobDetail& job, const LogFlags& flags) {
  return flags.is_error && !job.error.empty() ? job.error : job.output;
}

std::string LogFile::Next() {
  LogPiece piece = reader_ ? reader_(at_, last_) : ReadLog(path_, {.at = at_, .last = last_});
  const std::int64_t begin = piece.next - static_cast<std::int64_t>(piece.text.size());
  // With --last, earlier lines are left out on purpose and do not count as dropped.
  const bool knows_where = at_ >= 0 || last_ < 0;
  dropped_ = knows_where && piece.error == 0 ? begin - std::max<std::int64_t>(at_, 0) : 0;
  at_ = piece.next;
  error_ = piece.error;
  trouble_ = std::move(piece.trouble);
  return std::move(piece.text);
}

void NoteDropped(const LogFile& file, const std::string& name) {
  if (file.dropped() <= 0) return;
  Note(dialect::FormatSize(Bytes(file.dropped())) + " of the log of job " + name +
       " before this were dropped from its file (log_limit keeps the newest)");
}

std::string LogFile::trouble() const {
  return !trouble_.empty() ? trouble_ : "cannot read '" + path_ + "': " + std::strerror(error_);
}

LogFile OpenLogFile(Api& api, const wire::JobDetail& job, const LogFlags& flags) {
  const std::string path = LogPath(job, flags);
  if (!api.is_remote() && !IsElsewhere(job) && flags.run == 0) return {path, flags.last};
  return {
      path, flags.last,
      [&api, id = ToString(job.id), is_error = flags.is_error, run = flags.run](std::int64_t at, std::int64_t last) {
        auto piece = api.Log(id, is_error, at, last, run);
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
