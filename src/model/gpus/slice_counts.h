// Into how many slices MIG divides a GPU (model/gpus/gpu_slice.h).
#pragma once

namespace divvy {

inline constexpr int kComputeSlices = 7;
inline constexpr int kMemorySlices = 8;

/// What an instance counts as wherever GPUs are counted, of its time as well: as many ten-thousandths of a GPU as it
/// has of its memory slices. What is left of a GPU that is cut into seven of the smallest is nobody's.
constexpr int TenThousandthsOf(int memory_slices) { return 10'000 * memory_slices / kMemorySlices; }

}  // namespace divvy
