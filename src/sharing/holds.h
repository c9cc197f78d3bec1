// Which GPUs a tenant occupies at this moment: its current ones and the targets of a move or wake in progress.
#pragma once

#include "sharing/facts.h"

namespace divvy::sharing {

/// Calls visit(device, gpu) for each GPU on which `device` holds memory and a request. During a move both ends are
/// visited; while parked, none.
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

/// Returns the current GPU of each device, in device order.
inline std::vector<GpuIndex> GpusOf(const Tenant& tenant) {
  std::vector<GpuIndex> gpus;
  for (const Device& device : tenant.devices) gpus.push_back(device.gpu);
  return gpus;
}

}  // namespace divvy::sharing
