#include "sharing/planner/memory_ceilings.h"

#include <algorithm>

#include "sharing/occupied_gpus.h"

namespace divvy::sharing {

void MemoryCeilings::BeginDecision() {
  std::erase_if(granted_, [&](const auto& entry) { return entry.second.until <= node_.now(); });
}

void MemoryCeilings::RemoveTenant(TenantId id) {
  std::erase_if(granted_, [&](const auto& entry) { return entry.first.first == id; });
  std::erase_if(lowering_, [&](const DeviceKey& key) { return key.first == id; });
}

void MemoryCeilings::OnUse(TenantId id, unsigned device) {
  const auto granted = granted_.find({id, device});
  if (granted != granted_.end() && node_.tenants().at(id).devices[device].used >= granted->second.need)
    granted_.erase(granted);
}

void MemoryCeilings::OnSet(const SetCeiling& set, Bytes bytes) {
  Tenant& tenant = node_.tenants().at(set.tenant);
  Device& device = tenant.devices[set.device];
  const bool was_lowering = lowering_.erase({set.tenant, set.device}) > 0;
  if (tenant.state == State::kParked) return;  // It was parked meanwhile.
  if (was_lowering) device.ceiling = std::max(bytes, Bytes(0));
  if (bytes <= set.bytes) return;
  // The tenant uses more than it last reported.
  device.used = std::max(device.used, bytes);
  device.ceiling = std::max(device.ceiling, bytes);
}

void MemoryCeilings::Lower(Tenant& tenant, unsigned device, Bytes bytes) {
  lowering_.insert({tenant.id, device});
  actions_.Issue(SetCeiling{tenant.id, device, bytes});
}

void MemoryCeilings::LowerIdle(GpuIndex gpu, Bytes needed, const Tenant* except) {
  // Lowers ceilings in three passes: first by unused loans, then by memory that idle tenants do not use, then by memory
  // that busy tenants do not use.
  for (int pass = 0; pass < 3; ++pass) {
    for (auto& [id, tenant] : node_.tenants()) {
      if (&tenant == except || tenant.state != State::kHere) continue;
      if (pass == 1 && !node_.IsIdle(tenant)) continue;
      for (unsigned device = 0; device < tenant.devices.size(); ++device) {
        const Bytes short_of = needed - node_.Free(gpu);
        Bytes coming;
        for (const DeviceKey& key : lowering_) {
          const Device& lowered = node_.tenants().at(key.first).devices[key.second];
          if (lowered.gpu == gpu)
            coming += std::max(lowered.ceiling - FloorOf(node_.tenants().at(key.first), key.second), Bytes(0));
        }
        if (coming >= short_of) return;
        const Device& at = tenant.devices[device];
        if (at.gpu != gpu || IsLowering(id, device)) continue;
        const Bytes floor = FloorOf(tenant, device);
        if (at.ceiling <= floor || (pass == 0 && at.ceiling <= tenant.share.memory_request)) continue;
        Lower(tenant, device, floor);
      }
    }
  }
}

void MemoryCeilings::Grant(Tenant& tenant, unsigned device, Bytes ceiling, Bytes need) {
  tenant.devices[device].ceiling = ceiling;
  granted_[{tenant.id, device}] = {need, AddSaturating(node_.now(), node_.settings().grant_lasts)};
  actions_.Issue(SetCeiling{tenant.id, device, ceiling});
}

Bytes MemoryCeilings::FloorOf(const Tenant& tenant, unsigned device) const {
  const auto granted = granted_.find({tenant.id, device});
  const Bytes used = tenant.devices[device].used;
  return granted == granted_.end() ? used : std::max(used, granted->second.need);
}

Bytes MemoryCeilings::Slack(GpuIndex gpu, const Tenant* except) const {
  Bytes slack;
  for (const auto& [id, tenant] : node_.tenants()) {
    if (&tenant == except || tenant.state != State::kHere) continue;
    for (unsigned device = 0; device < tenant.devices.size(); ++device) {
      if (tenant.devices[device].gpu != gpu) continue;
      slack += std::max(tenant.devices[device].ceiling - FloorOf(tenant, device), Bytes(0));
    }
  }
  return slack;
}

bool MemoryCeilings::IsGrantUnused(GpuIndex gpu, const Tenant* owner) {
  return std::any_of(granted_.begin(), granted_.end(), [&](const auto& entry) {
    const Tenant& other = node_.tenants().at(entry.first.first);
    const Device& device = other.devices[entry.first.second];
    if (&other == owner || device.gpu != gpu || device.ceiling <= device.used) return false;
    actions_.DecideAgainBy(entry.second.until);
    return true;
  });
}

bool MemoryCeilings::IsBeingFreed(GpuIndex gpu) const {
  for (const auto& [id, flight] : actions_.in_flight()) {
    const Action& action = flight.action;
    const auto is_there = [&](TenantId tenant) { return Occupies(node_.tenants().at(tenant), gpu); };
    if (const auto* move = std::get_if<Move>(&action)) {
      // This also covers two devices that exchange GPUs: each counts on both GPUs until the move ends.
      for (std::size_t device = 0; device < move->from.size(); ++device) {
        if (move->from[device] == gpu && move->to[device] != gpu) return true;
      }
    }
    if (const auto* park = std::get_if<Park>(&action); park != nullptr && is_there(park->tenant)) return true;
    if (const auto* shrink = std::get_if<Shrink>(&action)) {
      if (node_.tenants().at(shrink->tenant).devices[shrink->device].gpu == gpu) return true;
    }
  }
  for (const DeviceKey& key : lowering_) {
    if (node_.tenants().at(key.first).devices[key.second].gpu == gpu) return true;
  }
  return false;
}

}  // namespace divvy::sharing
