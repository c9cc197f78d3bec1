// The number of slices into which MIG divides a GPU (model/gpus/gpu_slice.h).
#pragma once

namespace divvy {

inline constexpr int kComputeSlices = 7;
inline constexpr int kMemorySlices = 8;

/// The size of a MIG instance in ten-thousandths of a GPU, for counting GPUs and GPU time. It is proportional to its
/// memory slices. A GPU divided into seven of the smallest instances has an unused rest.
constexpr int TenThousandthsOf(int memory_slices) { return 10'000 * memory_slices / kMemorySlices; }

}  // namespace divvy
