#include "platform/users/read_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "platform/os/log_limit.h"

namespace divvy {
namespace {

/// The last lines are searched in at most this many bytes at the end of a file.
constexpr off_t kFarthestBack = 256 << 20;

/// Returns the offset at which the last `lines` lines of the file begin, or `kept` if that is greater.
off_t TailOffset(int fd, std::int64_t lines, off_t kept) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return 0;
  if (lines == 0) return status.st_size;
  off_t at = status.st_size;
  std::int64_t seen = 0;
  char buffer[65536];
  const off_t farthest = std::max<off_t>(status.st_size - kFarthestBack, kept);
  while (at > farthest) {
    const off_t begin = std::max<off_t>(at - static_cast<off_t>(sizeof buffer), farthest);
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

/// Appends the bytes from piece.next on.
void Read(int fd, std::size_t most, LogPiece& piece) {
  char buffer[65536];
  ssize_t got = 0;
  const auto room = [&] { return std::min(most - piece.text.size(), sizeof buffer); };
  while (piece.text.size() < most && (got = ::pread(fd, buffer, room(), piece.next)) > 0) {
    piece.text.append(buffer, static_cast<std::size_t>(got));
    piece.next += got;
  }
  if (got < 0) piece.error = errno;
}

/// If the head of the file was cut during the read, removes the zeros that were read in its place. Returns false if
/// nothing is left.
bool WithoutDropped(int fd, LogPiece& piece) {
  const std::int64_t kept = KeptFrom(fd);
  const std::int64_t begin = piece.next - static_cast<std::int64_t>(piece.text.size());
  if (kept <= begin) return true;
  piece.text.erase(0, static_cast<std::size_t>(kept - begin));
  piece.next = std::max(piece.next, kept);
  return !piece.text.empty();
}

}  // namespace

LogPiece ReadLog(const std::string& path, const LogRange& range, const FileOwner& reader) {
  const Descriptor file = OpenAs(reader, path, O_RDONLY | O_CLOEXEC);
  if (file.is_open()) return ReadOpenLog(file, range, reader.is_set());
  return {.next = range.at, .error = errno};
}

LogPiece ReadOpenLog(const Descriptor& file, const LogRange& range, bool is_users) {
  LogPiece piece;
  piece.next = range.at;
  struct stat status {};
  const bool has_status = ::fstat(file.get(), &status) == 0;
  if (is_users && (!has_status || !S_ISREG(status.st_mode))) {
    piece.error = EINVAL;
    return piece;
  }
  if (has_status) piece.size = status.st_size;
  const off_t kept = KeptFrom(file.get());
  if (range.at < 0) piece.next = range.last >= 0 ? TailOffset(file.get(), range.last, kept) : 0;
  if (range.newest && range.at > piece.size) piece.next = 0;
  if (range.newest) piece.next = std::max(piece.next, piece.size - static_cast<std::int64_t>(range.most));
  piece.next = std::max<std::int64_t>(piece.next, kept);
  do {
    Read(file.get(), range.most, piece);
  } while (!WithoutDropped(file.get(), piece) && piece.error == 0);
  return piece;
}

}  // namespace divvy
