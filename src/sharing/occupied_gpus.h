// The GPUs that a tenant occupies at this moment, with the targets of a move or wake in progress, and the memory that
// it has borrowed there.
#pragma once

#include <algorithm>
#include <vector>

#include "sharing/facts.h"

namespace divvy::sharing {

/// Calls visit(device, gpu) for each GPU on which `device` holds memory and a request. During a move, these are the old
/// and the new GPU. A parked tenant has none.
template <typename Visit>
void ForEachOccupied(const Tenant& tenant, Visit visit) {
  for (unsigned device = 0; device < tenant.devices.size(); ++device) {
    const Device& at = tenant.devices[device];
    const bool is_here =
        tenant.state == State::kHere || tenant.state == State::kParking || tenant.state == State::kMoving;
    if (is_here) visit(device, at.gpu);
    if (at.target && !(is_here && *at.target == at.gpu)) visit(device, *at.target);
  }
}

inline bool Occupies(const Tenant& tenant, GpuIndex gpu) {
  bool does = false;
  ForEachOccupied(tenant, [&](unsigned, GpuIndex held) { does |= held == gpu; });
  return does;
}

/// Returns the current GPU of each device, in device order.
inline std::vector<GpuIndex> GpusOf(const Tenant& tenant) {
  std::vector<GpuIndex> gpus;
  for (const Device& device : tenant.devices) gpus.push_back(device.gpu);
  return gpus;
}

/// Returns the GPU that each device is planned on, in device order.
inline std::vector<GpuIndex> PlannedGpusOf(const Tenant& tenant) {
  std::vector<GpuIndex> gpus;
  for (const Device& device : tenant.devices) gpus.push_back(device.planned_gpu);
  return gpus;
}

/// Returns true while the tenant moves, is being parked or wakes.
inline bool IsInFlight(const Tenant& tenant) {
  return !tenant.is_lost &&
         (tenant.state == State::kMoving || tenant.state == State::kParking || tenant.state == State::kWaking);
}

/// Returns the bytes that the tenant uses on this device above its request there.
inline Bytes Borrowed(const Tenant& tenant, unsigned device) {
  if (tenant.state == State::kParked || tenant.state == State::kArriving) return {};
  if (tenant.lodges_on == tenant.devices[device].gpu) return tenant.devices[device].used;
  return std::max(tenant.devices[device].used - tenant.share.memory_request, Bytes(0));
}

/// Returns true if the tenant is on this GPU and has borrowed memory there.
inline bool IsBorrower(const Tenant& tenant, GpuIndex gpu) {
  for (unsigned device = 0; device < tenant.devices.size(); ++device) {
    if (tenant.devices[device].gpu == gpu && Borrowed(tenant, device) > Bytes(0)) return tenant.state == State::kHere;
  }
  return false;
}

inline bool IsWithinRequest(const Tenant& tenant) {
  return std::ranges::all_of(tenant.devices,
                             [&](const Device& device) { return device.used <= tenant.share.memory_request; });
}

}  // namespace divvy::sharing
