// The number of slices into which MIG divides a GPU (model/gpus/gpu_slice.h).
#pragma once

namespace divvy {

inline constexpr int kComputeSlices = 7;
inline constexpr int kMemorySlices = 8;

/// The size of an instance wherever GPUs or GPU time are counted, in ten-thousandths of a GPU. It is proportional to
/// its memory slices. A GPU divided into seven of the smallest instances has an unused rest.
constexpr int TenThousandthsOf(int memory_slices) { return 10'000 * memory_slices / kMemorySlices; }

}  // namespace divvy
