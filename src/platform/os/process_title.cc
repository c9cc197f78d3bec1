#include "platform/os/process_title.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

constexpr std::size_t kRoom = 2048;

/// The memory from the first argument to the end of the environment; all null if the kernel does not report it.
struct Area {
  char* begin = nullptr;
  char* arguments_end = nullptr;
  char* end = nullptr;
};

Area FindArea() {
  const Descriptor file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  std::array<char, 2048> text{};
  if (!file.is_open() || ::read(file.get(), text.data(), text.size() - 1) <= 0) return {};
  // The second field is the command name in parentheses and may contain any characters. Fields 48 to 51 are the
  // addresses at which our arguments and environment begin and end.
  const char* at = std::strrchr(text.data(), ')');
  for (int field = 2; at != nullptr && field < 48; ++field) at = std::strchr(at + 1, ' ');
  if (at == nullptr) return {};
  std::array<char*, 4> places{};
  for (char*& place : places) {
    char* behind = nullptr;
    place = reinterpret_cast<char*>(std::strtoull(at, &behind, 10));
    at = behind;
  }
  if (places[0] == nullptr || places[1] <= places[0]) return {};
  // The kernel shows text beyond the arguments only if the environment follows them directly.
  const bool is_whole = places[2] == places[1] && places[3] > places[2];
  return {places[0], places[1], is_whole ? places[3] : places[1]};
}

}  // namespace

std::string TitleRoom() { return "DIVVY_TITLE_ROOM=" + std::string(kRoom, '.'); }

void ShowProcessAs(const std::string& line, const std::string& variable) {
  const Area area = FindArea();
  if (area.begin == nullptr) return;
  std::memset(area.begin, 0, static_cast<std::size_t>(area.end - area.begin));
  const auto put = [&area](char* to, std::string_view text) {
    const auto room = static_cast<std::size_t>(area.end - to) - 1;
    std::memcpy(to, text.data(), std::min(text.size(), room));
    return to + std::min(text.size(), room) + 1;
  };
  char* behind = put(area.begin, line);
  if (area.end == area.arguments_end) return;
  // A non-zero last byte of the arguments tells the kernel that the title continues behind them.
  behind = std::max(behind, area.arguments_end);
  if (behind < area.end) put(behind, variable);
}

void CloseFrom(int first) {
  if (::syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) return;
  // Fallback for kernels before Linux 5.9, which lack close_range.
  const long most = std::clamp(::sysconf(_SC_OPEN_MAX), 1024L, 1L << 20);
  for (int fd = first; fd < most; ++fd) ::close(fd);
}

}  // namespace divvy
