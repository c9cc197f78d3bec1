// The daemon's and the tests' access to the file that the stand-in CUDA drivers share (emulation_cuda.h). `directory`
// is the folder that WriteEmulation filled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/gpus/gpu.h"

namespace divvy {

/// Returns the content of a new file shared by the stand-in CUDA drivers. Returns nullopt if `old`, the content of the
/// existing file, can be kept: it has this layout and is from this boot.
std::optional<std::string> FreshCudaFile(std::string_view old);

/// One process's use of an emulated GPU, as the stand-in CUDA driver counts it.
struct EmulatedUse {
  GpuIndex gpu = 0;
  std::int64_t pid = 0;
  Bytes memory;              // Allocated memory.
  Bytes residual;            // Memory of contexts, their code and globals.
  std::int64_t busy_ns = 0;  // Total GPU time that it has used.
};

/// Returns the use of all living processes on the emulated GPUs of `directory`, by GPU, then by pid.
Result<std::vector<EmulatedUse>> ReadEmulatedUses(const std::string& directory);

/// Switches a CUDA fault on or off for all programs. Faults: "oom-at" (fails the n-th allocation from now on),
/// "copy-rate" (bytes per second), "sticky" (the next launch ends its context with this error), "refuse-checkpoint",
/// "refuse-restore" (1, or 0 for off), "none" (all off).
Status SetCudaFault(const std::string& directory, GpuIndex gpu, std::string_view fault, std::uint64_t value);

}  // namespace divvy
