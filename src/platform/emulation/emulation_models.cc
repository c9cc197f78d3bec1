#include "platform/emulation/emulation_models.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace divvy {
namespace {

// Names and memory as drivers report them: `nvidia-smi --query-gpu=name,memory.total`.
constexpr std::array kModels = {
    GpuModel{"B200", 192, "NVIDIA B200", 183359_MiB, 100, true, Wiring::kSwitched, 18},
    GpuModel{"GB200", 192, "NVIDIA GB200", 189471_MiB, 100, true, Wiring::kSwitched, 18},
    GpuModel{"GH200", 96, "NVIDIA GH200 480GB", 97871_MiB, 90, true, Wiring::kPcie, 0},
    GpuModel{"H200", 141, "NVIDIA H200", 143771_MiB, 90, true, Wiring::kSwitched, 18},
    GpuModel{"H100", 80, "NVIDIA H100 80GB HBM3", 81559_MiB, 90, true, Wiring::kSwitched, 18},
    GpuModel{"H100", 94, "NVIDIA H100 NVL", 95830_MiB, 90, true, Wiring::kPairs, 12},
    GpuModel{"H100-PCIe", 80, "NVIDIA H100 PCIe", 81559_MiB, 90, true, Wiring::kPcie, 0},
    GpuModel{"H20", 96, "NVIDIA H20", 97871_MiB, 90, true, Wiring::kSwitched, 18},
    GpuModel{"H800", 80, "NVIDIA H800", 81559_MiB, 90, true, Wiring::kSwitched, 8},
    GpuModel{"A100", 80, "NVIDIA A100-SXM4-80GB", 81920_MiB, 80, true, Wiring::kSwitched, 12},
    GpuModel{"A100", 40, "NVIDIA A100-SXM4-40GB", 40960_MiB, 80, true, Wiring::kSwitched, 12},
    GpuModel{"A100-PCIe", 80, "NVIDIA A100 80GB PCIe", 81920_MiB, 80, true, Wiring::kPcie, 0},
    GpuModel{"A100-PCIe", 40, "NVIDIA A100-PCIE-40GB", 40960_MiB, 80, true, Wiring::kPcie, 0},
    GpuModel{"A800", 80, "NVIDIA A800-SXM4-80GB", 81920_MiB, 80, true, Wiring::kSwitched, 8},
    GpuModel{"A30", 24, "NVIDIA A30", 24576_MiB, 80, true, Wiring::kPcie, 0},
    GpuModel{"A40", 48, "NVIDIA A40", 46068_MiB, 86, false, Wiring::kPcie, 0},
    GpuModel{"A10", 24, "NVIDIA A10", 23028_MiB, 86, false, Wiring::kPcie, 0},
    GpuModel{"A10G", 24, "NVIDIA A10G", 23028_MiB, 86, false, Wiring::kPcie, 0},
    GpuModel{"L40S", 48, "NVIDIA L40S", 46068_MiB, 89, false, Wiring::kPcie, 0},
    GpuModel{"L40", 48, "NVIDIA L40", 46068_MiB, 89, false, Wiring::kPcie, 0},
    GpuModel{"L4", 24, "NVIDIA L4", 23034_MiB, 89, false, Wiring::kPcie, 0},
    GpuModel{"V100", 32, "Tesla V100-SXM2-32GB", 32768_MiB, 70, false, Wiring::kCubeMesh, 6},
    GpuModel{"V100", 16, "Tesla V100-SXM2-16GB", 16384_MiB, 70, false, Wiring::kCubeMesh, 6},
    GpuModel{"T4", 16, "Tesla T4", 15360_MiB, 75, false, Wiring::kPcie, 0},
    GpuModel{"P100", 16, "Tesla P100-PCIE-16GB", 16384_MiB, 60, false, Wiring::kPcie, 0},
    GpuModel{"RTX5090", 32, "NVIDIA GeForce RTX 5090", 32607_MiB, 120, false, Wiring::kPcie, 0},
    GpuModel{"RTX4090", 24, "NVIDIA GeForce RTX 4090", 24564_MiB, 89, false, Wiring::kPcie, 0},
    GpuModel{"RTX3090", 24, "NVIDIA GeForce RTX 3090", 24576_MiB, 86, false, Wiring::kPcie, 0},
    GpuModel{"RTX2080Ti", 11, "NVIDIA GeForce RTX 2080 Ti", 11264_MiB, 75, false, Wiring::kPcie, 0},
    GpuModel{"RTX6000Ada", 48, "NVIDIA RTX 6000 Ada Generation", 49140_MiB, 89, false, Wiring::kPcie, 0},
    GpuModel{"RTXA6000", 48, "NVIDIA RTX A6000", 49140_MiB, 86, false, Wiring::kPcie, 0},
};

// NVLinks between the eight V100 of a DGX-1V, as `nvidia-smi topo -m` prints them.
constexpr std::array<std::array<int, 8>, 8> kCubeMesh = {{{0, 1, 1, 2, 2, 0, 0, 0},
                                                          {1, 0, 2, 1, 0, 2, 0, 0},
                                                          {1, 2, 0, 2, 0, 0, 1, 0},
                                                          {2, 1, 2, 0, 0, 0, 0, 1},
                                                          {2, 0, 0, 0, 0, 1, 1, 2},
                                                          {0, 2, 0, 0, 1, 0, 2, 1},
                                                          {0, 0, 1, 0, 1, 2, 0, 2},
                                                          {0, 0, 0, 1, 2, 1, 2, 0}}};

int NvLinksBetween(const GpuModel& model, std::size_t i, std::size_t j) {
  switch (model.wiring) {
    case Wiring::kPcie:
      return 0;
    case Wiring::kPairs:
      return i / 2 == j / 2 ? model.nvlinks : 0;
    case Wiring::kSwitched:
      return model.nvlinks;
    case Wiring::kCubeMesh:
      return i / 8 == j / 8 ? kCubeMesh[i % 8][j % 8] : 0;
  }
  return 0;
}

std::string PcieWay(const GpuFacts& a, const GpuFacts& b) {
  if (a.numa_node != b.numa_node) return "SYS";
  return a.index / 2 == b.index / 2 ? "PIX" : "NODE";
}

}  // namespace

std::string GpuModel::Spec() const { return std::string(family) + "-" + std::to_string(gigabytes) + "GB"; }

std::span<const GpuModel> KnownGpuModels() { return kModels; }

void WireServer(std::vector<GpuFacts>& gpus, const std::vector<const GpuModel*>& models) {
  const std::size_t count = gpus.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (gpus[i].numa_node < 0) gpus[i].numa_node = count > 4 && i >= count / 2 ? 1 : 0;
    if (!gpus[i].pci_address.empty()) continue;
    char address[32];
    std::snprintf(address, sizeof(address), "00000000:%02X:00.0", static_cast<unsigned>(0x10 + 3 * i));
    gpus[i].pci_address = address;
  }
  std::size_t begin = 0;  // Start of the run of one model to which GPU i belongs.
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && models[i] != models[i - 1]) begin = i;
    std::size_t end = i;
    while (end < count && models[end] == models[i]) ++end;
    gpus[i].links.assign(count, "X");
    for (std::size_t j = 0; j < count; ++j) {
      if (i == j) continue;
      const bool is_same_run = models[i] != nullptr && j >= begin && j < end;
      const int nvlinks = is_same_run ? NvLinksBetween(*models[i], i - begin, j - begin) : 0;
      gpus[i].links[j] = nvlinks > 0 ? "NV" + std::to_string(nvlinks) : PcieWay(gpus[i], gpus[j]);
    }
  }
}

}  // namespace divvy
