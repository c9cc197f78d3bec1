// Handling of Pin: tenants that are about to become immovable.
#include "sharing/holds.h"
#include "sharing/ledger.h"
#include "sharing/packing.h"
#include "sharing/words.h"

namespace divvy::sharing {

void SharePlanner::Pin(TenantId id, std::uint64_t request) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end()) return;
  pins_[request] = id;
  if (at->second.state == State::kParked) at->second.wants_to_wake = true;
}

void SharePlanner::SettlePins() {
  std::erase_if(pins_, [&](const auto& pin) {
    if (!IsSettled(tenants_.at(pin.second))) return false;
    binding_[pin.second] = AddSaturating(now_, settings_.binds_within);
    Say(Answer{pin.second, 0, pin.first, true, ""});
    return true;
  });
}

bool SharePlanner::IsAboutToBeBound(TenantId id) const {
  return binding_.contains(id) || std::ranges::any_of(pins_, [id](const auto& pin) { return pin.second == id; });
}

/// Returns true if the tenant is on its planned GPUs without loans, or as close to that as possible.
bool SharePlanner::IsSettled(Tenant& tenant) {
  // After a failed move or park there is no point in waiting; the call continues.
  if (tenant.is_lost || refusals_.contains(tenant.id)) return true;
  // The pin may have been requested while the tenant was leaving its GPU.
  if (tenant.state == State::kParked) tenant.wants_to_wake = true;
  if (tenant.state != State::kHere) return false;
  return !IsRepaying(tenant) && !IsComingHome(tenant);
}

bool SharePlanner::IsComingHome(Tenant& tenant) {
  std::vector<GpuIndex> paper;
  for (const Device& device : tenant.devices) paper.push_back(device.paper);
  if (paper == GpusOf(tenant) || !WhyStays(tenant).empty()) return false;
  if (!std::all_of(paper.begin(), paper.end(), [&](GpuIndex gpu) { return IsOpen(gpu); })) return false;
  Packing packing = PackingOf({}, nullptr);
  const auto number = static_cast<std::size_t>(packing.NumberOf(tenant.id));
  PackTenant& packed = packing.problem.tenants[number];
  packed.allowed = 0;
  for (const int gpu : packed.paper) packed.allowed |= std::uint64_t{1} << gpu;
  packed.must_leave = true;
  const std::optional<PackPlan> plan = Repack(packing.problem);
  if (!plan || !CarryOut(packing, plan->to, {}, false)) return false;
  waits_[tenant.id] = "moves to its guaranteed GPU before it is bound to a GPU";
  return true;
}

bool SharePlanner::IsRepaying(Tenant& tenant) {
  bool is_under_way = false;
  for (unsigned device = 0; device < tenant.devices.size(); ++device) {
    const Device& at = tenant.devices[device];
    const Bytes most = std::max(at.used, tenant.share.memory_request);
    if (at.ceiling > most && !lowering_.contains({tenant.id, device})) Lower(tenant, device, most);
    is_under_way |= lowering_.contains({tenant.id, device});
    if (tenant.share.can_be_requeued || Borrowed(tenant, device) == Bytes(0)) continue;
    const bool is_asked = std::any_of(in_flight_.begin(), in_flight_.end(), [&](const auto& entry) {
      const auto* shrink = std::get_if<Shrink>(&entry.second.deed);
      return shrink != nullptr && shrink->tenant == tenant.id;
    });
    const auto asked = shrunk_.find(tenant.id);
    const bool was_asked = asked != shrunk_.end() && now_ - asked->second < settings_.memory_turn;
    if (!is_asked && !was_asked) Issue(Shrink{tenant.id, device, Borrowed(tenant, device)});
    is_under_way |= is_asked || !was_asked;
  }
  return is_under_way;
}

}  // namespace divvy::sharing
