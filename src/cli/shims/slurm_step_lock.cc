#include "cli/shims/slurm_step_lock.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace divvy::cli::slurm {
namespace {

constexpr off_t kCounterLock = 63;  // Held for the moment in which the counter or a choice of GPUs is made.
constexpr off_t kFirstGpu = 64;
constexpr std::time_t kForgottenAfter = 7 * 86'400;

bool Lock(int fd, off_t byte, bool waits) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  int result = 0;
  do {
    result = ::fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

void Unlock(int fd, off_t byte) {
  struct flock lock {};
  lock.l_type = F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  ::fcntl(fd, F_OFD_SETLK, &lock);
}

std::string Folder() {
  const char* base = std::getenv("TMPDIR");
  return std::string(base != nullptr && *base == '/' ? base : "/tmp") + "/divvy-steps-" + std::to_string(::getuid());
}

/// Files of jobs whose last step was a week ago and that nobody holds.
void Forget(const std::string& folder) {
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* entry = ::readdir(entries)) {
    if (entry->d_name[0] == '.') continue;
    const std::string path = folder + "/" + entry->d_name;
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || status.st_mtime > std::time(nullptr) - kForgottenAfter) continue;
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (::fcntl(fd, F_OFD_SETLK, &whole) == 0) ::unlink(path.c_str());
    ::close(fd);
  }
  ::closedir(entries);
}

}  // namespace

Result<StepLock> StepLock::Open(const std::string& job) {
  const std::string folder = Folder();
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return FailedPrecondition("cannot make " + folder + ": " + std::strerror(errno));
  }
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::getuid()) {
    return PermissionDenied(folder + " belongs to someone else; set TMPDIR to a directory of your own");
  }
  const std::string path = folder + "/" + job;
  bool is_new = true;
  int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 && errno == EEXIST) {
    is_new = false;
    fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  }
  if (fd < 0) return FailedPrecondition("cannot open " + path + ": " + std::strerror(errno));
  if (is_new) Forget(folder);
  return StepLock(fd);
}

StepLock::~StepLock() {
  if (fd_ >= 0) ::close(fd_);
}

int StepLock::NextStep() {
  Lock(fd_, kCounterLock, true);
  std::array<char, 16> text{};
  const ssize_t got = ::pread(fd_, text.data(), text.size() - 1, 0);
  const int step = got > 0 ? std::atoi(text.data()) : 0;
  const std::string next = std::to_string(step + 1);
  const ssize_t wrote = ::pwrite(fd_, next.c_str(), next.size() + 1, 0);
  Unlock(fd_, kCounterLock);
  return wrote > 0 ? step : 0;
}

std::vector<std::size_t> StepLock::TakeGpus(std::size_t count, std::size_t total) {
  std::vector<std::size_t> taken;
  Lock(fd_, kCounterLock, true);
  for (std::size_t place = 0; place < total && taken.size() < count; ++place) {
    if (Lock(fd_, kFirstGpu + static_cast<off_t>(place), false)) taken.push_back(place);
  }
  if (taken.size() < count) {
    for (const std::size_t place : taken) Unlock(fd_, kFirstGpu + static_cast<off_t>(place));
    taken.clear();
  }
  Unlock(fd_, kCounterLock);
  return taken;
}

}  // namespace divvy::cli::slurm
