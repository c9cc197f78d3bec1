// Entry points about a device's location and links.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nvml_world.h"

using namespace divvy::nvml;       // NOLINT: the entry points are outside the namespace by their ABI.
using namespace divvy::emulation;  // NOLINT: same reason.

namespace {

constexpr unsigned kSwitches = 4;           // As on an HGX board; links are distributed over them in turn.
constexpr unsigned kSwitchDomain = 0x5357;  // A PCI domain that no GPU uses.

struct RemoteEnd {
  bool is_active = false;
  LinkEnd kind = kLinkToUnknown;
  unsigned gpu = 0;  // For kLinkToGpu.
};

// Returns the end of a link. Direct links to GPUs have the lowest numbers, sorted by GPU index; links to switches
// follow.
RemoteEnd EndOfLink(const WorldFacts& facts, unsigned link) {
  unsigned first = 0;
  for (unsigned gpu = 0; gpu < kMaxGpus; ++gpu) {
    if (link < first + facts.nvlinks[gpu]) return {true, kLinkToGpu, gpu};
    first += facts.nvlinks[gpu];
  }
  if (link < first + facts.switch_links) return {true, kLinkToSwitch, 0};
  return {};
}

void FillPci(PciAddress& out, unsigned domain, unsigned bus, unsigned device) {
  memset(&out, 0, sizeof(out));
  out.domain = domain;
  out.bus = bus;
  out.device = device;
  out.pci_device_id = 0x10DE;
  snprintf(out.bus_id_legacy, sizeof(out.bus_id_legacy), "%04X:%02X:%02X.0", domain & 0xFFFF, bus & 0xFF,
           device & 0xFF);
  snprintf(out.bus_id, sizeof(out.bus_id), "%08X:%02X:%02X.0", domain, bus & 0xFF, device & 0xFF);
}

void FillPci(PciAddress& out, const WorldFacts& facts) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  ParsePci(facts.pci, domain, bus, device);
  FillPci(out, domain, bus, device);
}

}  // namespace

Return nvmlDeviceGetPciInfo_v3(Device device, PciAddress* pci) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (pci == nullptr) return kInvalidArgument;
  FillPci(*pci, *look.facts);
  return kSuccess;
}
Return nvmlDeviceGetPciInfo_v2(Device device, PciAddress* pci) { return nvmlDeviceGetPciInfo_v3(device, pci); }
Return nvmlDeviceGetPciInfo(Device device, PciAddress* pci) { return nvmlDeviceGetPciInfo_v3(device, pci); }

Return nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, TopologyLevel* level) {
  Look look(a);
  if (look.result != kSuccess) return look.result;
  const unsigned other = IndexOf(b);
  if (level == nullptr || other == kMaxGpus) return kInvalidArgument;
  *level = static_cast<TopologyLevel>(look.facts->levels[other]);
  return kSuccess;
}

Return nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* is_active) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (link >= kMaxNvLinks || is_active == nullptr) return kInvalidArgument;
  if (!EndOfLink(*look.facts, 0).is_active) return kNotSupported;
  *is_active = EndOfLink(*look.facts, link).is_active ? 1 : 0;
  return kSuccess;
}

Return nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, LinkEnd* end) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (link >= kMaxNvLinks || end == nullptr) return kInvalidArgument;
  const RemoteEnd far = EndOfLink(*look.facts, link);
  if (!far.is_active) return kNotSupported;
  *end = far.kind;
  return kSuccess;
}

Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciAddress* pci) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (link >= kMaxNvLinks || pci == nullptr) return kInvalidArgument;
  const RemoteEnd far = EndOfLink(*look.facts, link);
  if (!far.is_active) return kNotSupported;
  if (far.kind == kLinkToGpu) {
    FillPci(*pci, OpenWorld()->gpus[far.gpu].facts);
  } else {
    FillPci(*pci, kSwitchDomain, look.facts->switch_domain * kSwitches + link % kSwitches, 0);
  }
  return kSuccess;
}
Return nvmlDeviceGetNvLinkRemotePciInfo(Device device, unsigned link, PciAddress* pci) {
  return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci);
}

Return nvmlDeviceGetMemoryAffinity(Device device, unsigned words, unsigned long* nodes, unsigned) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (nodes == nullptr || words == 0) return kInvalidArgument;
  if (look.facts->numa_node < 0) return kNotSupported;
  const auto node = static_cast<unsigned>(look.facts->numa_node);
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  if (node / kBits >= words) return kInsufficientSize;
  memset(nodes, 0, words * sizeof(unsigned long));
  nodes[node / kBits] = 1UL << node % kBits;
  return kSuccess;
}

// All processors, because the description does not specify the machine's processors.
Return nvmlDeviceGetCpuAffinity(Device device, unsigned words, unsigned long* cpus) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (cpus == nullptr || words == 0) return kInvalidArgument;
  memset(cpus, 0, words * sizeof(unsigned long));
  constexpr unsigned kBits = 8 * sizeof(unsigned long);
  const long count = sysconf(_SC_NPROCESSORS_CONF);
  for (unsigned i = 0; i < static_cast<unsigned>(count > 0 ? count : 1) && i / kBits < words; ++i) {
    cpus[i / kBits] |= 1UL << i % kBits;
  }
  return kSuccess;
}
