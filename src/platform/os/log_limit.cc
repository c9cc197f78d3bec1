#include "platform/os/log_limit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/os/launch_descriptor.h"

namespace divvy {
namespace {

/// Holes are cut at multiples of this, or of the file system's own blocks where those are larger: a part of a block
/// would be filled with zeros and kept.
constexpr std::int64_t kStep = 64 << 10;

}  // namespace

bool HasOwnLogMode(const struct stat& status) {
  const bool is_shared = (status.st_mode & 07777) == 0660 && status.st_gid == ::getegid();
  return is_shared || (status.st_mode & 07777) == 0600;
}

std::int64_t KeptFrom(int fd) {
  if (::lseek(fd, 0, SEEK_HOLE) != 0) return 0;
  // Nothing but a hole (ENXIO): somebody made it longer and wrote nothing.
  const off_t data = std::max<off_t>(::lseek(fd, 0, SEEK_DATA), 0);
  // What is left of the last block's hole is zeros (LineAfter).
  std::array<char, kStep> bytes;
  const ssize_t got = data > 0 ? ::pread(fd, bytes.data(), bytes.size(), data) : 0;
  const auto end = bytes.begin() + std::max<ssize_t>(got, 0);
  const auto begin = std::find_if(bytes.begin(), end, [](char byte) { return byte != 0; });
  return data + (begin == end ? 0 : begin - bytes.begin());
}

namespace {

/// Where the first line begins at `from` or behind it; `from` where that is far. What is cut off in between is given
/// back as zeros, up to the end of its block.
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
  // Most logs are small, and cost no more than this.
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
