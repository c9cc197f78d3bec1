#include "platform/read_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace divvy {
namespace {

/// Last lines are looked for in so much of the end of a file.
constexpr off_t kFarthestBack = 256 << 20;

/// Where the last `lines` lines of the file begin.
off_t TailOffset(int fd, std::int64_t lines) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return 0;
  if (lines == 0) return status.st_size;
  off_t at = status.st_size;
  std::int64_t seen = 0;
  char buffer[65536];
  const off_t farthest = std::max<off_t>(status.st_size - kFarthestBack, 0);
  while (at > farthest) {
    const off_t begin = at > static_cast<off_t>(sizeof buffer) ? at - static_cast<off_t>(sizeof buffer) : 0;
    const ssize_t got = ::pread(fd, buffer, static_cast<std::size_t>(at - begin), begin);
    if (got <= 0) return 0;
    for (ssize_t i = got - 1; i >= 0; --i) {
      const bool is_last_byte = begin + i == status.st_size - 1;
      if (buffer[i] == '\n' && !is_last_byte && ++seen == lines) return begin + i + 1;
    }
    at = begin;
  }
  return at;
}

}  // namespace

LogPiece ReadLog(const std::string& path, std::int64_t at, std::int64_t last, const FileOwner& reader,
                 std::size_t most) {
  LogPiece piece;
  piece.next = at;
  const Descriptor file = OpenAs(reader, path, O_RDONLY | O_CLOEXEC);
  if (!file.is_open()) {
    piece.error = errno;
    return piece;
  }
  struct stat status {};
  const bool has_status = ::fstat(file.get(), &status) == 0;
  if (reader.is_set() && (!has_status || !S_ISREG(status.st_mode))) {
    piece.error = EINVAL;
    return piece;
  }
  if (has_status) piece.size = status.st_size;
  if (at < 0) piece.next = last >= 0 ? TailOffset(file.get(), last) : 0;
  char buffer[65536];
  ssize_t got = 0;
  const auto room = [&] { return std::min(most - piece.text.size(), sizeof buffer); };
  while (piece.text.size() < most && (got = ::pread(file.get(), buffer, room(), piece.next)) > 0) {
    piece.text.append(buffer, static_cast<std::size_t>(got));
    piece.next += got;
  }
  if (got < 0) piece.error = errno;
  return piece;
}

}  // namespace divvy
