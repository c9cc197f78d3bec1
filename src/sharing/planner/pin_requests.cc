#include "sharing/planner/pin_requests.h"

#include <algorithm>

#include "sharing/occupied_gpus.h"

namespace divvy::sharing {

void PinRequests::BeginDecision() {
  std::erase_if(binding_, [&](const auto& entry) { return entry.second <= node_.now(); });
}

void PinRequests::RemoveTenant(TenantId id) {
  std::erase_if(pins_, [&](const auto& pin) { return pin.second == id; });
  binding_.erase(id);
}

void PinRequests::Add(TenantId id, std::uint64_t request) {
  Tenant* tenant = node_.Find(id);
  if (tenant == nullptr) return;
  pins_[request] = id;
  if (tenant->state == State::kParked) node_.WantWake(id);
}

void PinRequests::Forget(TenantId id, std::uint64_t request) {
  // The keeper may have let the program's call continue before the tenant was on its planned GPUs. The call may bind
  // the tenant to its GPUs now.
  if (pins_.erase(request) > 0) binding_[id] = AddSaturating(node_.now(), node_.settings().binds_within);
}

void PinRequests::Settle() {
  std::erase_if(pins_, [&](const auto& pin) {
    if (!IsSettled(node_.tenants().at(pin.second))) return false;
    binding_[pin.second] = AddSaturating(node_.now(), node_.settings().binds_within);
    actions_.Send(Answer{pin.second, 0, pin.first, true, ""});
    return true;
  });
}

/// Returns true if the tenant is on its planned GPUs without loans, or as close to that as possible.
bool PinRequests::IsSettled(Tenant& tenant) {
  // After a failed move or park there is no point in waiting; the call continues.
  if (tenant.is_lost || !node_.WhyRefused(tenant.id).empty()) return true;
  // The process may have sent its request while the tenant was leaving its GPU.
  if (tenant.state == State::kParked) node_.WantWake(tenant.id);
  if (tenant.state != State::kHere) return false;
  return !IsRepaying(tenant) && !IsComingHome(tenant);
}

bool PinRequests::IsComingHome(Tenant& tenant) {
  const std::vector<GpuIndex> planned_gpus = PlannedGpusOf(tenant);
  if (planned_gpus == GpusOf(tenant) || !node_.WhyStays(tenant).empty()) return false;
  if (!std::all_of(planned_gpus.begin(), planned_gpus.end(), [&](GpuIndex gpu) { return node_.IsOpen(gpu); }))
    return false;
  NodePacking packing = PackingOf(node_, {}, nullptr);
  const auto number = static_cast<std::size_t>(packing.NumberOf(tenant.id));
  PackTenant& packed = packing.problem.tenants[number];
  packed.allowed = 0;
  for (const int gpu : packed.planned_gpus) packed.allowed |= std::uint64_t{1} << gpu;
  packed.must_leave = true;
  const std::optional<PackPlan> plan = Repack(packing.problem);
  if (!plan || !mover_.CarryOut(packing, plan->to, {}, false)) return false;
  actions_.SetWaits(tenant.id, "moves to its guaranteed GPU before it is bound to a GPU");
  return true;
}

bool PinRequests::IsRepaying(Tenant& tenant) {
  bool is_under_way = false;
  for (unsigned device = 0; device < tenant.devices.size(); ++device) {
    const Device& at = tenant.devices[device];
    const Bytes most = std::max(at.used, tenant.share.memory_request);
    if (at.ceiling > most && !ceilings_.IsLowering(tenant.id, device)) ceilings_.Lower(tenant, device, most);
    is_under_way |= ceilings_.IsLowering(tenant.id, device);
    if (tenant.share.can_be_requeued || Borrowed(tenant, device) == Bytes(0)) continue;
    const bool is_asked = std::any_of(actions_.in_flight().begin(), actions_.in_flight().end(), [&](const auto& entry) {
      const auto* shrink = std::get_if<Shrink>(&entry.second.action);
      return shrink != nullptr && shrink->tenant == tenant.id;
    });
    const bool was_asked = repayment_.HasShrunkLately(tenant.id);
    if (!is_asked && !was_asked) actions_.Issue(Shrink{tenant.id, device, Borrowed(tenant, device)});
    is_under_way |= is_asked || !was_asked;
  }
  return is_under_way;
}

bool PinRequests::IsWaiting(TenantId id) const {
  return std::ranges::any_of(pins_, [id](const auto& pin) { return pin.second == id; });
}

}  // namespace divvy::sharing
