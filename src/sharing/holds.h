// Which GPUs a tenant counts on at this moment: where it is, and where it is being brought.
#pragma once

#include "sharing/facts.h"

namespace divvy::sharing {

/// visit(device, gpu) for each GPU that device holds memory and a request on: both ends of a move; none while parked.
template <typename Visit>
void ForEachHold(const Tenant& tenant, Visit visit) {
  for (unsigned device = 0; device < tenant.devices.size(); ++device) {
    const Device& at = tenant.devices[device];
    const bool is_here =
        tenant.state == State::kHere || tenant.state == State::kParking || tenant.state == State::kMoving;
    if (is_here) visit(device, at.gpu);
    if (at.target && !(is_here && *at.target == at.gpu)) visit(device, *at.target);
  }
}

inline bool Holds(const Tenant& tenant, GpuIndex gpu) {
  bool does = false;
  ForEachHold(tenant, [&](unsigned, GpuIndex held) { does |= held == gpu; });
  return does;
}

/// Where its devices are.
inline std::vector<GpuIndex> GpusOf(const Tenant& tenant) {
  std::vector<GpuIndex> gpus;
  for (const Device& device : tenant.devices) gpus.push_back(device.gpu);
  return gpus;
}

}  // namespace divvy::sharing
