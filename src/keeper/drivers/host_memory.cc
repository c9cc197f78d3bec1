#include "keeper/drivers/host_memory.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/text.h"

namespace divvy::keeper {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the number after `name` at the start of a line.
std::optional<std::int64_t> NumberIn(const std::string& text, std::string_view name) {
  for (const std::string_view line : Split(text, '\n')) {
    const auto words = SplitWords(line);
    if (words.size() >= 2 && words[0] == name) return ParseInteger(words[1]);
  }
  return std::nullopt;
}

/// Returns a cgroup's limit minus its use, not counting cache that it could drop.
std::optional<std::int64_t> RoomIn(const std::string& directory, const char* limit, const char* use) {
  // v2 writes "max" for no limit; v1 writes a number larger than any machine's memory.
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  const auto most = ParseInteger(Trim(TextOf(directory + limit)));
  const auto used = ParseInteger(Trim(TextOf(directory + use)));
  if (!most || !used || *most >= kNoLimit) return std::nullopt;
  const std::int64_t files = NumberIn(TextOf(directory + "/memory.stat"), "inactive_file").value_or(0);
  return std::max<std::int64_t>(0, *most - std::max<std::int64_t>(0, *used - files));
}

}  // namespace

std::optional<Bytes> HostMemory::Room() const {
  constexpr std::int64_t kKilo = 1024;
  const std::string text = TextOf(proc_ + "/meminfo");
  const auto available = NumberIn(text, "MemAvailable:");
  const auto all = NumberIn(text, "MemTotal:");
  if (!available || !all) return std::nullopt;
  return Bytes(std::max<std::int64_t>(0, *available - *all / 10) * kKilo);
}

std::optional<Bytes> HostMemory::RoomOf(std::int64_t pid) const {
  std::optional<std::int64_t> least;
  const std::string text = TextOf(proc_ + "/" + std::to_string(pid) + "/cgroup");
  for (const std::string_view line : Split(text, '\n')) {
    // "0::/a/b" in v2, "7:memory:/a/b" in v1.
    const auto parts = Split(line, ':');
    if (parts.size() < 3) continue;
    const bool is_unified = parts[0] == "0" && parts[1].empty();
    if (!is_unified && parts[1] != "memory") continue;
    std::string path(line.substr(parts[0].size() + parts[1].size() + 2));
    const std::string root = cgroups_ + (is_unified ? "" : "/memory");
    for (;;) {
      const auto room = is_unified ? RoomIn(root + path, "/memory.max", "/memory.current")
                                   : RoomIn(root + path, "/memory.limit_in_bytes", "/memory.usage_in_bytes");
      if (room) least = std::min(least.value_or(*room), *room);
      const std::size_t slash = path.rfind('/');
      if (slash == std::string::npos || path.size() <= 1) break;
      path.resize(slash);
    }
  }
  if (!least) return std::nullopt;
  return Bytes(*least);
}

}  // namespace divvy::keeper
