// How the GPUs of a machine are connected, in the notation of `nvidia-smi topo -m`.
#pragma once

#include <string>
#include <vector>

#include "platform/gpu/nvml.h"

namespace divvy {

/// Returns result[i][j], the connection from GPU i to GPU j. "X" for i == j; "NVn" for n NVLinks, direct or through
/// NVSwitches that both are on. Otherwise where their PCIe paths meet: "PIX", "PXB", "PHB", "NODE", "SYS" ("SYS" also
/// if the driver does not report it). `pci[i]` is NVML's address of GPU i; a null device is a lost one.
std::vector<std::vector<std::string>> ReadLinks(const NvmlLibrary& nvml, const std::vector<nvml::Device>& devices,
                                                const std::vector<std::string>& pci);

}  // namespace divvy
