// Into how many slices MIG divides a GPU (model/gpu_slice.h).
#pragma once

namespace divvy {

inline constexpr int kComputeSlices = 7;
inline constexpr int kMemorySlices = 8;

}  // namespace divvy
