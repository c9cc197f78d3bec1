// Descriptors that others have opened and sent us, and connections that others have made. close(2) of the last copy may
// wait for as long as who opened it likes: a socket lingers, a file system in user space does not answer, and in the
// queue of a Unix socket lies another such descriptor. What is here never waits for that.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace divvy {

/// Closes it. Unless it is a pipe, a terminal or a file on a local disk, a process of its own has the last copy for a
/// moment, and ends, which does not wait. Cost: one or two system calls, or a message to that process; it is forked the
/// first time. Threads may call it at once.
void CloseForeign(int fd);

/// Closes a connection that we have accepted. Its peer may have sent descriptors that nobody has read.
void CloseAccepted(int fd);

/// recv(2) into `size` bytes, with its flags; of what is no socket, read(2). Descriptors that come with the bytes are
/// appended to `fds`, closed on exec; where `fds` is null they are closed.
ssize_t ReceiveForeign(int fd, void* into, std::size_t size, int flags, std::vector<int>* fds = nullptr);

/// Has one owner, as Descriptor.
class ForeignDescriptor {
 public:
  ForeignDescriptor() = default;
  explicit ForeignDescriptor(int fd) : fd_(fd) {}
  ForeignDescriptor(ForeignDescriptor&& other) noexcept : fd_(other.Release()) {}
  ForeignDescriptor& operator=(ForeignDescriptor&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~ForeignDescriptor() { Reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  /// Gives the descriptor away; the caller closes it.
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (fd_ >= 0) CloseForeign(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace divvy
