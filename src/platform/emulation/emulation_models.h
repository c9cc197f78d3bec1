// The GPU models that an emulation knows by name, and how a server of them is wired.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "model/gpus/gpu.h"

namespace divvy {

enum class Wiring {
  kPcie,      // No NVLink.
  kPairs,     // Bridges between neighbours: 0-1, 2-3, ...
  kSwitched,  // All to all through NVSwitches.
  kCubeMesh,  // The hybrid cube mesh of eight V100.
};

struct GpuModel {
  std::string_view family;  // "H100", "RTX4090"
  int gigabytes = 0;        // As it is sold; with the family it names the model: "H100-80GB".
  std::string_view name;    // As NVML names it.
  Bytes memory;             // As NVML counts it.
  int compute_capability = 0;
  bool is_mig_capable = false;
  Wiring wiring = Wiring::kPcie;
  int nvlinks = 0;  // To each peer (kPairs) or to the switches.

  std::string Spec() const;
};

std::span<const GpuModel> KnownGpuModels();

/// Fills links, numa_node (where it is not set) and pci_address (where it is empty) for a server that holds exactly
/// `gpus`, in this order: runs of GPUs of one model are wired among themselves as that model is sold, the rest is PCIe;
/// more than four GPUs sit on two processors. `models` belongs to `gpus` by position; null: not a known model.
void WireServer(std::vector<GpuFacts>& gpus, const std::vector<const GpuModel*>& models);

}  // namespace divvy
