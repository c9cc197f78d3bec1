#include "sharing/planner/user_commands.h"

#include <algorithm>

#include "sharing/occupied_gpus.h"
#include "sharing/words.h"

namespace divvy::sharing {
namespace {

Status CheckFraction(const Tenant& tenant) {
  if (!tenant.share.is_whole) return {};
  return FailedPrecondition(TenantText(tenant.id) + " has whole GPUs; the scheduler decides when it is parked");
}

}  // namespace

Status UserCommands::Park(TenantId id) {
  DIVVY_TRY(const Tenant* const found, node_.Lookup(id));
  const Tenant& tenant = *found;
  DIVVY_CHECK(CheckFraction(tenant));
  if (tenant.state == State::kParked || tenant.state == State::kParking) return {};
  if (const std::string why = node_.WhyKeepsGpu(tenant); !why.empty()) {
    return FailedPrecondition(TenantText(id) + " cannot be parked: " + why);
  }
  if (tenant.state == State::kArriving) return FailedPrecondition(TenantText(id) + " has no GPU yet");
  requested_parks_.insert(id);
  return {};
}

Status UserCommands::Wake(TenantId id) {
  DIVVY_TRY(const Tenant* const found, node_.Lookup(id));
  DIVVY_CHECK(CheckFraction(*found));
  requested_parks_.erase(id);
  node_.WantWake(id);
  node_.ForgetRefusal(id);
  return {};
}

// Checks whether a tenant may move between these two GPUs, apart from its requests.
Status UserCommands::CheckTarget(GpuIndex from, GpuIndex to) const {
  const Gpu& there = node_.gpus().at(to);
  const std::string gpu = "GPU " + std::to_string(to);
  if (!there.why_unusable.empty()) return FailedPrecondition(gpu + " cannot be used: it " + there.why_unusable);
  if (!there.why_withheld.empty())
    return FailedPrecondition(gpu + " does not accept GPU fractions now: it " + there.why_withheld);
  if (there.whole_job >= kFirstCut) return FailedPrecondition(gpu + " is cut into MIG instances");
  if (there.whole_job != 0) {
    return FailedPrecondition(gpu + " is allocated to job " + std::to_string(there.whole_job) +
                              ", which uses the whole GPU");
  }
  if (there.kind != node_.gpus().at(from).kind) {
    return FailedPrecondition(gpu + " is a different model than GPU " + std::to_string(from));
  }
  return {};
}

Status UserCommands::Move(TenantId id, const std::vector<GpuIndex>& to) {
  DIVVY_TRY(const Tenant* const found, node_.Lookup(id));
  const Tenant& tenant = *found;
  const std::string name = TenantText(id);
  DIVVY_CHECK(CheckFraction(tenant));
  if (!tenant.why_cannot_move.empty()) return FailedPrecondition(name + " cannot be moved: " + tenant.why_cannot_move);
  if (tenant.state != State::kHere || tenant.is_lost) {
    return FailedPrecondition(name + " is not on its GPU" + (tenant.state == State::kParked ? "; wake it first" : ""));
  }
  DIVVY_CHECK(node_.CheckTargets(tenant, to));
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] != tenant.devices[i].gpu) DIVVY_CHECK(CheckTarget(tenant.devices[i].gpu, to[i]));
  }
  if (!node_.RequestsFit(tenant, to)) {
    return FailedPrecondition("there is no room for the request of " + name + " next to the requests of other tenants");
  }
  requested_moves_[id] = to;
  return {};
}

void UserCommands::RemoveTenant(TenantId id) {
  requested_moves_.erase(id);
  requested_parks_.erase(id);
}

void UserCommands::MoveAsRequested() {
  for (auto at = requested_moves_.begin(); at != requested_moves_.end();) {
    Tenant& tenant = node_.tenants().at(at->first);
    const std::vector<GpuIndex>& to = at->second;
    Room room = Room::kNone;
    std::string why = "there is no room left";
    const bool is_allowed =
        tenant.state == State::kHere && to != GpusOf(tenant) && node_.WhyStays(tenant).empty() &&
        std::all_of(to.begin(), to.end(), [&](GpuIndex gpu) {
          return node_.IsOpen(gpu) || std::count_if(tenant.devices.begin(), tenant.devices.end(),
                                                    [&](const Device& device) { return device.gpu == gpu; }) > 0;
        });
    if (is_allowed) room = mover_.StartMove(tenant, to);
    for (unsigned device = 0; is_allowed && room == Room::kNone && IsWithinRequest(tenant) && device < to.size();
         ++device) {
      if (to[device] == tenant.devices[device].gpu || !node_.RequestsFit(tenant, {to[device]})) continue;
      if (repayment_.MakeRoom(to[device], tenant.devices[device].used, &tenant, Right::kRequest, &why) ==
          Room::kUnderWay) {
        room = Room::kUnderWay;
      }
    }
    if (room == Room::kNone && to != GpusOf(tenant))
      actions_.FailTenant(at->first, "was not moved as requested: " + why);
    if (room == Room::kUnderWay) ++at;
    else at = requested_moves_.erase(at);
  }
}

void UserCommands::ParkAsRequested() {
  std::erase_if(requested_parks_, [&](TenantId id) {
    Tenant& tenant = node_.tenants().at(id);
    // The user's command to park is carried out when the tenant has arrived on its GPUs.
    if (tenant.state == State::kMoving || tenant.state == State::kWaking) return false;
    if (tenant.state == State::kHere && node_.WhyKeepsGpu(tenant).empty())
      mover_.StartPark(tenant, ParkedBy::kUser, "on request");
    return true;
  });
}

}  // namespace divvy::sharing
