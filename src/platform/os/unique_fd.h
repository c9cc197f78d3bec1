// A file descriptor with one owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace divvy {

template <auto kClose>
class OwnedDescriptor {
 public:
  OwnedDescriptor() = default;
  explicit OwnedDescriptor(int fd) : fd_(fd) {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : fd_(other.Release()) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~OwnedDescriptor() { Reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  /// Returns the descriptor and no longer owns it; the caller must close it.
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (fd_ >= 0) kClose(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

using Descriptor = OwnedDescriptor<&::close>;

}  // namespace divvy
