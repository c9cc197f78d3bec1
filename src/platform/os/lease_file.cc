#include "platform/os/lease_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

constexpr std::size_t kNoteMost = 512;
/// How often the file is read if its text is incomplete. A write takes about a microsecond, so the next read usually
/// gets the whole text.
constexpr int kReads = 3;

}  // namespace

Status LeaseFile::Keep(const std::string& text) {
  if (text == kept_) return {};
  const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.is_open() && ::pwrite(file.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
    kept_ = text;
    return {};
  }
  const int error = errno;
  kept_.clear();
  ::unlink(path_.c_str());
  return Internal("cannot write the lease '" + path_ + "': " + std::strerror(error) +
                  "; until this is fixed, only the agent stops jobs when the node is cut off");
}

Result<LeaseNote> ReadLeaseFile(const std::string& path) {
  const auto failed = [&] { return Internal("cannot read the lease '" + path + "': " + std::strerror(errno)); };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open() && errno == ENOENT) return NotFound("there is no lease '" + path + "'");
  if (!file.is_open()) return failed();
  std::array<char, kNoteMost> text;
  for (int i = 0; i < kReads; ++i) {
    const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
    if (size < 0) return failed();
    if (auto note = ParseLeaseNote({text.data(), static_cast<std::size_t>(size)})) return *std::move(note);
  }
  return Internal("the lease '" + path + "' does not hold a lease");
}

}  // namespace divvy
