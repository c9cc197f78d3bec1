#include "store/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace divvy {

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<FileLock> FileLock::Acquire(const std::string& path, const std::string& guarded) {
  FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.descriptor_ < 0) {
    const int error_number = errno;
    const std::string cause = std::strerror(error_number);
    if (error_number == ENOSPC || error_number == EDQUOT) return LimitExceeded("cannot create " + path + ": " + cause);
    return FailedPrecondition("cannot open " + path + " (" + cause + "): check the folder and its permissions");
  }
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Internal("cannot lock " + path + ": " + std::strerror(errno));
    std::array<char, 32> text{};
    const ssize_t length = ::pread(lock.descriptor_, text.data(), text.size(), 0);
    const std::string_view pid = Trim({text.data(), static_cast<std::size_t>(length > 0 ? length : 0)});
    return FailedPrecondition(guarded + " is in use by another divvy" +
                              (pid.empty() ? std::string() : " (pid " + std::string(pid) + ")") +
                              ": stop that one first with \"divvy down\"");
  }
  // The pid only helps the user of a second process. The lock holds without it, so a full disk does not matter here.
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.descriptor_, 0) == 0) (void)!::pwrite(lock.descriptor_, pid.data(), pid.size(), 0);
  return lock;
}

}  // namespace divvy
