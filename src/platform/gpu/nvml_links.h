// How the GPUs of a machine reach each other, in the words of `nvidia-smi topo -m`.
#pragma once

#include <string>
#include <vector>

#include "platform/gpu/nvml.h"

namespace divvy {

/// result[i][j]: the way from GPU i to GPU j: "X" for i == j; "NVn" for n NVLinks, straight or through NVSwitches that
/// both are on; else where their PCIe paths meet: "PIX", "PXB", "PHB", "NODE", "SYS" (also where the driver does not
/// say). `pci[i]` is NVML's address of GPU i; a null device is a lost one.
std::vector<std::vector<std::string>> ReadLinks(const NvmlLibrary& nvml, const std::vector<nvml::Device>& devices,
                                                const std::vector<std::string>& pci);

}  // namespace divvy
