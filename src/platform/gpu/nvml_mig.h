// What the probe and mig.cc both ask NVML about MIG.
#pragma once

#include <vector>

#include "model/gpus/gpu.h"
#include "platform/gpu/mig.h"
#include "platform/gpu/nvml.h"

namespace divvy {

/// All instances on a GPU in MIG mode.
std::vector<MigInstance> ReadMigInstances(const NvmlLibrary& nvml, nvml::Device device);
/// The sizes that a GPU can be cut into, smallest first: as the driver has them, or, where the mode is off and it does
/// not tell, as the vendor's tables have them for its model. Empty: none that divvy knows how to place.
std::vector<SliceProfile> ReadSliceProfiles(const NvmlLibrary& nvml, nvml::Device device, const GpuFacts& facts);

}  // namespace divvy
