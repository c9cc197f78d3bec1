// The GPU models that an emulation knows by name, and the wiring of a server with them.
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
  int gigabytes = 0;        // The size as sold; family and size name the model: "H100-80GB".
  std::string_view name;    // NVML's name of the model.
  Bytes memory;             // As reported by NVML.
  int compute_capability = 0;
  bool is_mig_capable = false;
  Wiring wiring = Wiring::kPcie;
  int nvlinks = 0;  // To each peer (kPairs) or to the switches.

  std::string Spec() const;
};

std::span<const GpuModel> KnownGpuModels();

/// Fills in links, numa_node (if not set) and pci_address (if empty) for a server that holds exactly `gpus`, in this
/// order. Consecutive GPUs of one model are connected as in the servers that are sold with this model; all other
/// connections are PCIe. More than four GPUs are divided between two processors. `models` corresponds to `gpus` by
/// position; null: an unknown model.
void WireServer(std::vector<GpuFacts>& gpus, const std::vector<const GpuModel*>& models);

}  // namespace divvy
