#include "model/gpus/gpu_slice.h"

#include <algorithm>

#include "base/text.h"
#include "model/gpus/slice_counts.h"

namespace divvy {

std::string SliceName(int compute, Bytes memory, Bytes gpu_memory) {
  constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
  if (gpu_memory <= Bytes(0)) return std::to_string(compute) + "g";
  const std::int64_t eighths = (memory.count() * 8 + gpu_memory.count() - 1) / gpu_memory.count();
  const std::int64_t whole = (gpu_memory.count() + kGibibyte - 1) / kGibibyte;
  return std::to_string(compute) + "g." + std::to_string((eighths * whole + 4) / 8) + "gb";
}

std::vector<SliceProfile> UsualSlices(Bytes gpu_memory) {
  // Memory that the GPU keeps for itself in each MIG instance. Measured: 0.2 GiB, slightly more in larger instances.
  constexpr Bytes kKept = 256_MiB;
  struct Form {
    int compute;
    int size;
  };
  std::vector<SliceProfile> profiles;
  for (const auto [compute, size] : {Form{1, 1}, Form{1, 2}, Form{2, 2}, Form{3, 4}, Form{4, 4}, Form{7, 8}}) {
    Bytes memory(gpu_memory.count() / kMemorySlices * size);
    memory -= std::min(memory, kKept);
    profiles.push_back({SliceName(compute, memory, gpu_memory), compute, size, memory});
  }
  return profiles;
}

Bytes SliceMemory(std::string_view slice) {
  slice.remove_prefix(2);
  if (slice.empty()) return {};
  const char unit = slice.back();
  const int shift = unit == 'G' ? 30 : unit == 'M' ? 20 : 0;
  if (shift > 0) slice.remove_suffix(1);
  const auto number = ParseInteger(slice);
  constexpr std::int64_t kMost = std::int64_t{1} << 20;  // GiB, or MiB of a terabyte: no GPU has that much.
  return number && *number > 0 && *number <= kMost ? Bytes(*number << shift) : Bytes();
}

bool IsSuchSlice(const SliceProfile& profile, std::string_view slice) {
  if (IsByMemory(slice)) return SliceMemory(slice) > Bytes() && profile.memory >= SliceMemory(slice);
  if (slice.find('.') != std::string_view::npos) return profile.name == slice;
  const bool is_wide = profile.compute == 1 && profile.size > 1;
  return slice == std::to_string(profile.compute) + (is_wide ? "g-wide" : "g");
}

}  // namespace divvy
