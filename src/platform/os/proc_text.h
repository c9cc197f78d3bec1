// Reads small files of /proc and /sys many times a second.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace divvy {

/// Reads the first 16 KiB of a file. The result is valid until the next call on the same object; empty if the file
/// cannot be read.
class ProcText {
 public:
  std::string_view Read(const char* path) {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return {};
    const ssize_t length = ::read(fd, buffer_.data(), buffer_.size());
    ::close(fd);
    return length <= 0 ? std::string_view() : std::string_view(buffer_.data(), static_cast<std::size_t>(length));
  }

 private:
  std::array<char, 16384> buffer_;
};

/// Finds the line that starts with `key` and returns the number after it, or 0 if there is none.
inline std::uint64_t NumberBehind(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; (at = text.find(key, at)) != std::string_view::npos; at += key.size()) {
    if (at != 0 && text[at - 1] != '\n') continue;
    std::size_t digit = at + key.size();
    while (digit < text.size() && (text[digit] == ' ' || text[digit] == '\t')) ++digit;
    std::uint64_t number = 0;
    for (; digit < text.size() && text[digit] >= '0' && text[digit] <= '9'; ++digit)
      number = number * 10 + static_cast<std::uint64_t>(text[digit] - '0');
    return number;
  }
  return 0;
}

}  // namespace divvy
