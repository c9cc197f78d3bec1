#include "cli/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace divvy::cli {
namespace {

constexpr std::size_t kMostAtOnce = 1 << 20;

/// Where the last `lines` lines of the file begin.
off_t TailOffset(int fd, std::int64_t lines) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return 0;
  if (lines == 0) return status.st_size;
  off_t at = status.st_size;
  std::int64_t seen = 0;
  char buffer[65536];
  while (at > 0) {
    const off_t begin = at > static_cast<off_t>(sizeof buffer) ? at - static_cast<off_t>(sizeof buffer) : 0;
    const ssize_t got = ::pread(fd, buffer, static_cast<std::size_t>(at - begin), begin);
    if (got <= 0) return 0;
    for (ssize_t i = got - 1; i >= 0; --i) {
      const bool is_last_byte = begin + i == status.st_size - 1;
      if (buffer[i] == '\n' && !is_last_byte && ++seen == lines) return begin + i + 1;
    }
    at = begin;
  }
  return 0;
}

}  // namespace

std::string LogPath(const wire::JobDetail& job, const LogFlags& flags) {
  return flags.is_error && !job.error.empty() ? job.error : job.output;
}

std::string LogFile::Next() {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  error_ = fd < 0 ? errno : 0;
  if (fd < 0) return "";
  if (at_ < 0) at_ = last_ >= 0 ? TailOffset(fd, last_) : 0;
  std::string text;
  char buffer[65536];
  ssize_t got = 0;
  while (text.size() < kMostAtOnce && (got = ::pread(fd, buffer, sizeof buffer, at_)) > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
    at_ += got;
  }
  if (got < 0) error_ = errno;
  ::close(fd);
  return text;
}

}  // namespace divvy::cli
