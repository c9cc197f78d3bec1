#include "keeper/drivers/gpu_map.h"

#include <algorithm>

namespace divvy::keeper {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<GpuUuid> ParseGpuUuid(std::string_view text) {
  if (!text.starts_with("GPU-")) return std::nullopt;
  text.remove_prefix(4);
  GpuUuid uuid{};
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const int digit = HexDigit(c);
    if (digit < 0 || digits == 32) return std::nullopt;
    uuid[digits / 2] = static_cast<unsigned char>(uuid[digits / 2] * 16 + digit);
    ++digits;
  }
  return digits == 32 ? std::optional(uuid) : std::nullopt;
}

Result<std::vector<std::pair<GpuUuid, GpuUuid>>> CompleteGpuMap(
    const std::vector<GpuUuid>& all, const std::vector<std::pair<GpuUuid, GpuUuid>>& wanted) {
  const auto is_known = [&all](const GpuUuid& gpu) { return std::find(all.begin(), all.end(), gpu) != all.end(); };
  std::vector<std::pair<GpuUuid, GpuUuid>> map;
  const auto is_old = [&map](const GpuUuid& gpu) {
    return std::any_of(map.begin(), map.end(), [&](const auto& pair) { return pair.first == gpu; });
  };
  const auto is_new = [&map](const GpuUuid& gpu) {
    return std::any_of(map.begin(), map.end(), [&](const auto& pair) { return pair.second == gpu; });
  };
  bool moves = false;
  for (const auto& [from, to] : wanted) {
    if (!is_known(from) || !is_known(to)) return InvalidArgument("the driver does not list one of the GPUs");
    if (is_old(from) || is_new(to)) return InvalidArgument("two devices of a job would be on one GPU");
    moves = moves || from != to;
    map.emplace_back(from, to);
  }
  if (!moves) return std::vector<std::pair<GpuUuid, GpuUuid>>{};
  for (const GpuUuid& gpu : all) {
    if (!is_old(gpu) && !is_new(gpu)) map.emplace_back(gpu, gpu);
  }
  // The remaining old GPUs take the remaining new ones, in the driver's order.
  for (const GpuUuid& gpu : all) {
    if (is_old(gpu)) continue;
    const auto free = std::find_if(all.begin(), all.end(), [&](const GpuUuid& to) { return !is_new(to); });
    map.emplace_back(gpu, *free);
  }
  return map;
}

}  // namespace divvy::keeper
