#include "platform/gpu/nvml_links.h"

#include <algorithm>
#include <map>
#include <set>

namespace divvy {
namespace {

struct NvLinks {
  std::map<std::size_t, int> to_gpu;
  int to_switches = 0;
  std::set<std::string> switches;  // PCI addresses; empty if the driver hides them (virtual machines).
};

NvLinks ReadNvLinks(const NvmlLibrary& nvml, nvml::Device device, const std::vector<std::string>& pci) {
  NvLinks links;
  if (nvml.get_link_state == nullptr || device == nullptr) return links;
  for (unsigned link = 0; link < nvml::kMaxNvLinks; ++link) {
    unsigned is_active = 0;
    if (nvml.get_link_state(device, link, &is_active) != nvml::kSuccess || is_active == 0) continue;
    nvml::PciAddress far{};
    const bool has_address = nvml.get_link_pci != nullptr && nvml.get_link_pci(device, link, &far) == nvml::kSuccess &&
                             far.bus_id[0] != '\0';
    const auto gpu = has_address ? std::ranges::find(pci, std::string(far.bus_id)) : pci.end();
    if (gpu != pci.end()) {
      ++links.to_gpu[static_cast<std::size_t>(gpu - pci.begin())];
      continue;
    }
    nvml::LinkEnd end = nvml::kLinkToUnknown;
    const bool has_end = nvml.get_link_end != nullptr && nvml.get_link_end(device, link, &end) == nvml::kSuccess;
    // The link does not lead to a GPU of this machine, so it leads to an NVSwitch, unless the driver reports that it
    // leads to a POWER9 processor.
    if (has_end && end == nvml::kLinkToNpu) continue;
    ++links.to_switches;
    if (has_address) links.switches.insert(far.bus_id);
  }
  return links;
}

bool ShareSwitch(const NvLinks& a, const NvLinks& b) {
  if (a.to_switches == 0 || b.to_switches == 0) return false;
  if (a.switches.empty() || b.switches.empty()) return true;
  return std::ranges::any_of(a.switches, [&](const std::string& address) { return b.switches.contains(address); });
}

std::string PcieWay(const NvmlLibrary& nvml, nvml::Device a, nvml::Device b) {
  nvml::TopologyLevel level = nvml::kSystem;
  if (a == nullptr || b == nullptr || nvml.get_common_ancestor == nullptr ||
      nvml.get_common_ancestor(a, b, &level) != nvml::kSuccess) {
    return "SYS";
  }
  switch (level) {
    case nvml::kInternal:
    case nvml::kSingleSwitch:
      return "PIX";
    case nvml::kMultipleSwitches:
      return "PXB";
    case nvml::kHostBridge:
      return "PHB";
    case nvml::kNode:
      return "NODE";
    case nvml::kSystem:
      break;
  }
  return "SYS";
}

}  // namespace

std::vector<std::vector<std::string>> ReadLinks(const NvmlLibrary& nvml, const std::vector<nvml::Device>& devices,
                                                const std::vector<std::string>& pci) {
  std::vector<NvLinks> nvlinks;
  for (nvml::Device device : devices) nvlinks.push_back(ReadNvLinks(nvml, device, pci));
  std::vector<std::vector<std::string>> ways(devices.size(), std::vector<std::string>(devices.size(), "X"));
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = 0; j < devices.size(); ++j) {
      if (i == j) continue;
      int count = nvlinks[i].to_gpu.contains(j) ? nvlinks[i].to_gpu.at(j) : 0;
      if (ShareSwitch(nvlinks[i], nvlinks[j])) count += std::min(nvlinks[i].to_switches, nvlinks[j].to_switches);
      ways[i][j] = count > 0 ? "NV" + std::to_string(count) : PcieWay(nvml, devices[i], devices[j]);
    }
  }
  return ways;
}

}  // namespace divvy
