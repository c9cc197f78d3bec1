// MIG queries that the probe and mig.cc share.
#pragma once

#include <vector>

#include "model/gpus/gpu.h"
#include "platform/gpu/mig.h"
#include "platform/gpu/nvml.h"

namespace divvy {

/// Returns all instances on a GPU in MIG mode.
std::vector<MigInstance> ReadMigInstances(const NvmlLibrary& nvml, nvml::Device device);
/// Returns the sizes into which a GPU can be divided, smallest first. They come from the driver or, if MIG mode is off
/// and the driver does not report them, from the vendor's tables for its model. Empty if divvy cannot place any of
/// them.
std::vector<SliceProfile> ReadSliceProfiles(const NvmlLibrary& nvml, nvml::Device device, const GpuFacts& facts);

}  // namespace divvy
