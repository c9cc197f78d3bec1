#include "sharing/planner/displacements.h"

#include <algorithm>

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

Status Displacements::CheckModels(const Tenant& tenant, const std::vector<GpuIndex>& to) const {
  const GpuIndex had = tenant.devices.front().gpu;
  for (const GpuIndex gpu : to) {
    if (node_.gpus().at(gpu).kind == node_.gpus().at(had).kind) continue;
    return FailedPrecondition("GPU " + std::to_string(gpu) + " is a different model than GPU " + std::to_string(had) +
                              ", which " + TenantText(tenant.id) + " had");
  }
  return {};
}

Status Displacements::Return(TenantId id, const std::vector<GpuIndex>& to) {
  DIVVY_TRY(Tenant* const tenant, node_.Lookup(id));
  DIVVY_CHECK(CheckWhole(*tenant));
  DIVVY_CHECK(node_.CheckTargets(*tenant, to));
  DIVVY_CHECK(CheckModels(*tenant, to));
  if (tenant->state == State::kParked) {
    for (std::size_t i = 0; i < to.size(); ++i) tenant->devices[i].planned_gpu = to[i];
    tenant->is_displaced = false;
    tenant->wants_to_wake = true;
    tenant->parked_by = ParkedBy::kOnItsWay;
    node_.ForgetRefusal(id);
    return {};
  }
  if (!std::ranges::is_permutation(PlannedGpusOf(*tenant), to)) {
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
