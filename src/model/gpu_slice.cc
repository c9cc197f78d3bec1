#include "model/gpu_slice.h"

#include "base/text.h"

namespace divvy {

std::string SliceName(int compute, Bytes memory, Bytes gpu_memory) {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  if (gpu_memory <= Bytes(0)) return std::to_string(compute) + "g";
  const std::int64_t eighths = (memory.count() * 8 + gpu_memory.count() - 1) / gpu_memory.count();
  const std::int64_t whole = (gpu_memory.count() + kGibibyte - 1) / kGibibyte;
  return std::to_string(compute) + "g." + std::to_string((eighths * whole + 4) / 8) + "gb";
}

Bytes SliceMemory(std::string_view slice) {
  slice.remove_prefix(2);
  if (slice.empty()) return {};
  const char unit = slice.back();
  const int shift = unit == 'G' ? 30 : unit == 'M' ? 20 : 0;
  if (shift > 0) slice.remove_suffix(1);
  const auto number = ParseInteger(slice);
  constexpr std::int64_t kMost = std::int64_t{1} << 20;  // GiB, or MiB of a terabyte: no GPU has as much.
  return number && *number > 0 && *number <= kMost ? Bytes(*number << shift) : Bytes();
}

bool IsSuchSlice(const SliceProfile& profile, std::string_view slice) {
  if (IsByMemory(slice)) return SliceMemory(slice) > Bytes() && profile.memory >= SliceMemory(slice);
  if (slice.find('.') != std::string_view::npos) return profile.name == slice;
  const bool is_wide = profile.compute == 1 && profile.size > 1;
  return slice == std::to_string(profile.compute) + (is_wide ? "g-wide" : "g");
}

}  // namespace divvy
