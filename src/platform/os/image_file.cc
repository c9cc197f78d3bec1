#include "platform/os/image_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace divvy {
namespace {

bool WriteFully(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

Error CannotWrite(const std::string& path, int error, std::string_view purpose) {
  return FailedPrecondition("cannot write " + path + " (" + std::strerror(error) + "): " + std::string(purpose) +
                            " need it");
}

}  // namespace

std::string ReadImage(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::string bytes;
  std::array<char, 65536> buffer;
  for (ssize_t got = 0; (got = read(fd, buffer.data(), buffer.size())) > 0;) {
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
  }
  close(fd);
  return bytes;
}

Status ReplaceFile(const std::string& path, std::string_view bytes, mode_t mode, std::string_view purpose) {
  const std::string temporary = path + ".new." + std::to_string(getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return CannotWrite(temporary, errno, purpose);
  const bool is_written = WriteFully(fd, bytes) && fchmod(fd, mode) == 0;
  const int error = errno;
  close(fd);
  if (is_written && rename(temporary.c_str(), path.c_str()) == 0) return {};
  const int why = is_written ? errno : error;
  unlink(temporary.c_str());
  return CannotWrite(path, why, purpose);
}

Status WriteImage(const std::string& path, const char* begin, const char* end, std::string_view purpose) {
  const std::string_view image(begin, static_cast<std::size_t>(end - begin));
  return ReadImage(path) == image ? Status{} : ReplaceFile(path, image, 0755, purpose);
}

}  // namespace divvy
