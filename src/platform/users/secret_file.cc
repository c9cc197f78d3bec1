#include "platform/users/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/os/unique_fd.h"

namespace divvy {

Result<std::string> ReadSecret(const std::string& path, std::size_t most, Readers readers, RootTakes root_takes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) {
    if (errno == ENOENT) return NotFound("there is no " + path);
    return PermissionDenied("opening " + path + ": " + std::strerror(errno));
  }
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return CorruptData(path + " is not a regular file");
  const bool is_roots = readers == Readers::kAll && about.st_uid == 0;
  const bool is_taken_by_root = ::geteuid() == 0 && root_takes == RootTakes::kAll;
  if (about.st_uid != ::geteuid() && !is_taken_by_root && !is_roots)
    return PermissionDenied(path + " belongs to another user; remove it");
  if (readers == Readers::kAll && (about.st_mode & 022) != 0)
    return PermissionDenied("others may write " + path + "; chmod 644 it, once you know what is in it");
  if (readers == Readers::kNobody && (about.st_mode & 077) != 0)
    return PermissionDenied("others may read the key in " + path + "; chmod 600 it, or remove it for a new one");
  // Reads one byte more than the file's size, to detect that the file has grown since fstat().
  if (about.st_size > static_cast<off_t>(most)) return CorruptData(path + " is too long");
  std::string text(static_cast<std::size_t>(about.st_size) + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CorruptData("reading " + path + ": " + std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size == text.size()) return CorruptData(path + " grew while it was read");
  text.resize(size);
  return text;
}

Status WriteSecret(const std::string& path, const std::string& text, bool is_durable, Readers readers) {
  const std::string fresh = path + "~";
  ::unlink(fresh.c_str());
  Descriptor file(
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, readers == Readers::kAll ? 0644 : 0600));
  if (!file.is_open()) return PermissionDenied("making " + path + ": " + std::strerror(errno));
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t wrote = ::write(file.get(), rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(wrote));
  }
  const bool is_whole = rest.empty() && (!is_durable || ::fsync(file.get()) == 0);
  const int error = errno;
  file.Reset();
  if (is_whole && ::rename(fresh.c_str(), path.c_str()) == 0) return {};
  ::unlink(fresh.c_str());
  return Internal("writing " + path + ": " + std::strerror(is_whole ? errno : error));
}

}  // namespace divvy
