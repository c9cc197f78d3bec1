#include "sharing/planner/displacements.h"

#include <algorithm>

#include "base/text.h"
#include "sharing/occupied_gpus.h"
#include "sharing/words.h"

namespace divvy::sharing {
namespace {

Status CheckWhole(const Tenant& tenant) {
  if (tenant.share.is_whole) return {};
  return FailedPrecondition(TenantText(tenant.id) + " has a GPU fraction; only a job with whole GPUs can be displaced");
}

}  // namespace

Status Displacements::Displace(TenantId id) {
  DIVVY_TRY(Tenant* const tenant, node_.Lookup(id));
  DIVVY_CHECK(CheckWhole(*tenant));
  if (tenant->is_displaced) return {};
  if (tenant->state == State::kArriving) return FailedPrecondition(TenantText(id) + " has no GPU yet");
  const bool is_off = tenant->state == State::kParked || tenant->state == State::kParking;
  if (const std::string why = node_.WhyKeepsGpu(*tenant); !why.empty() && (!is_off || tenant->is_lost))
    return FailedPrecondition(TenantText(id) + " cannot be parked: " + why);
  tenant->is_displaced = true;
  tenant->wants_to_wake = false;
  return {};
}

Status Displacements::CheckTargets(const Tenant& tenant, const std::vector<GpuIndex>& to) const {
  const std::string name = TenantText(tenant.id);
  if (to.size() != tenant.devices.size()) {
    return InvalidArgument(name + " has " + Plural(static_cast<std::int64_t>(tenant.devices.size()), "GPU") + ", not " +
                           std::to_string(to.size()));
  }
  GpuSet named;
  for (const GpuIndex index : to) {
    const std::string gpu = "GPU " + std::to_string(index);
    const auto there = node_.gpus().find(index);
    if (there == node_.gpus().end()) return NotFound("there is no " + gpu);
    if (named.Contains(index)) return InvalidArgument(gpu + " is named twice");
    named.Insert(index);
    if (there->second.kind != node_.gpus().at(tenant.devices.front().gpu).kind) {
      return FailedPrecondition(gpu + " is a different model than GPU " + std::to_string(tenant.devices.front().gpu) +
                                ", which " + name + " had");
    }
  }
  return {};
}

Status Displacements::Return(TenantId id, const std::vector<GpuIndex>& to) {
  DIVVY_TRY(Tenant* const tenant, node_.Lookup(id));
  DIVVY_CHECK(CheckWhole(*tenant));
  DIVVY_CHECK(CheckTargets(*tenant, to));
  if (tenant->state == State::kParked) {
    for (std::size_t i = 0; i < to.size(); ++i) tenant->devices[i].planned_gpu = to[i];
    tenant->is_displaced = false;
    tenant->wants_to_wake = true;
    tenant->parked_by = ParkedBy::kOnItsWay;
    node_.ForgetRefusal(id);
    return {};
  }
  std::vector<GpuIndex> planned;
  for (const Device& device : tenant->devices) planned.push_back(device.planned_gpu);
  if (!std::ranges::is_permutation(planned, to)) {
    return FailedPrecondition(TenantText(id) + " is not parked; it can return to other GPUs only after that");
  }
  // The tenant is being parked, or parking has not begun yet.
  tenant->is_displaced = false;
  if (tenant->state == State::kParking) tenant->wants_to_wake = true;
  return {};
}

void Displacements::ParkDisplaced() {
  for (auto& [id, tenant] : node_.tenants()) {
    if (!tenant.is_displaced || tenant.state != State::kHere) continue;
    const std::string why = node_.WhyKeepsGpu(tenant);
    if (why.empty()) {
      mover_.StartPark(tenant, ParkedBy::kUser, "displaced");
      continue;
    }
    tenant.is_displaced = false;
    actions_.FailTenant(id, "could not be parked: " + why);
  }
}

}  // namespace divvy::sharing
