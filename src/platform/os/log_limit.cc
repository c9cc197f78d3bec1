#include "platform/os/log_limit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

/// Holes are cut at multiples of this size, or of the file system's block size if that is larger. A partial block would
/// not be freed, only filled with zeros.
constexpr std::int64_t kStep = 64 << 10;

}  // namespace

bool HasOwnLogMode(const struct stat& status) {
  const bool is_shared = (status.st_mode & 07777) == 0660 && status.st_gid == ::getegid();
  return is_shared || (status.st_mode & 07777) == 0600;
}

std::int64_t KeptFrom(int fd) {
  if (::lseek(fd, 0, SEEK_HOLE) != 0) return 0;
  // The file is one hole (ENXIO): it was extended without being written.
  const off_t data = std::max<off_t>(::lseek(fd, 0, SEEK_DATA), 0);
  // The rest of the last block before the kept part is zeros (see LineAfter).
  std::array<char, kStep> bytes;
  const ssize_t got = data > 0 ? ::pread(fd, bytes.data(), bytes.size(), data) : 0;
  const auto end = bytes.begin() + std::max<ssize_t>(got, 0);
  const auto begin = std::find_if(bytes.begin(), end, [](char byte) { return byte != 0; });
  return data + (begin == end ? 0 : begin - bytes.begin());
}

namespace {

/// Returns the start of the first line at or after `from`, or `from` if none begins within kStep bytes. Punching up to
/// there fills the last partial block with zeros.
std::int64_t LineAfter(int fd, std::int64_t from) {
  std::array<char, kStep> bytes;
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), from - 1);
  const auto end = bytes.begin() + std::max<ssize_t>(got, 0);
  const auto feed = std::find(bytes.begin(), end, '\n');
  return feed == end ? from : from + (feed - bytes.begin());
}

}  // namespace

void LogLimit::Look(std::set<JobId> running) {
  std::set<JobId> looked = std::exchange(seen_, running);
  looked.merge(running);
  for (const JobId job : looked) LookAt(job);
}

void LogLimit::LookAt(JobId job) {
  const std::string path = directory_ + "/" + ToString(job) + ".log";
  struct stat status {};
  const std::int64_t most = limit_.count() + limit_.count() / 8;
  // Most logs are small and cost only this lstat().
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= most) return;
  if (!HasOwnLogMode(status)) return;
  const Descriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || status.st_size - KeptFrom(file.get()) <= most) return;
  const std::int64_t step = std::max<std::int64_t>(kStep, status.st_blksize);
  const std::int64_t length = (status.st_size - limit_.count()) / step * step;
  if (length <= 0) return;
  const std::int64_t cut = LineAfter(file.get(), length);
  if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, cut) == 0) return;
  if (!std::exchange(has_complained_, true))
    note_("event=log_not_limited path=" + path + " error=\"" + std::strerror(errno) + "\"");
}

}  // namespace divvy
