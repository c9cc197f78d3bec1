#include "sharing/planner/tenant_mover.h"

#include <algorithm>
#include <tuple>

#include "sharing/occupied_gpus.h"

namespace divvy::sharing {

void TenantMover::PlaceNew(Tenant& tenant, const std::vector<GpuIndex>& to) {
  actions_.Send(Place{tenant.id, to});
  for (unsigned device = 0; device < to.size(); ++device) {
    Device& at = tenant.devices[device];
    at.ceiling = std::max(std::min(tenant.share.memory_request, node_.Free(to[device])), Bytes(0));
    at.gpu = to[device];
    actions_.Issue(SetCeiling{tenant.id, device, at.ceiling});
  }
  tenant.state = State::kHere;
  tenant.last_move = node_.now();
}

Room TenantMover::SendHome(Tenant& tenant) {
  const std::vector<GpuIndex> home = PlannedGpusOf(tenant);
  if (home == GpusOf(tenant)) {
    // Its planned GPUs were changed to these. Evacuation::Uncrowd makes room if the requests there do not fit now.
    tenant.lodges_on.reset();
    return Room::kUnderWay;
  }
  const bool is_open = std::ranges::all_of(home, [this](GpuIndex gpu) { return node_.IsOpen(gpu); });
  return is_open && node_.WhyStays(tenant).empty() ? StartMove(tenant, home) : Room::kNone;
}

Room TenantMover::StartMove(Tenant& tenant, const std::vector<GpuIndex>& to, bool lodges) {
  const std::vector<GpuIndex> from = GpusOf(tenant);
  bool is_lowering = false;
  std::vector<GpuIndex> fresh;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] != from[i]) fresh.push_back(to[i]);
  }
  if (!lodges && !node_.RequestsFit(tenant, fresh)) return Room::kNone;
  for (unsigned device = 0; device < to.size(); ++device) {
    const Device& at = tenant.devices[device];
    if (to[device] == from[device] || node_.Free(to[device]) >= at.ceiling) continue;
    if (node_.Free(to[device]) + ceilings_.Slack(to[device], &tenant) < at.used) {
      return ceilings_.IsBeingFreed(to[device]) ? Room::kUnderWay : Room::kNone;
    }
  }
  for (unsigned device = 0; device < to.size(); ++device) {
    const Device& at = tenant.devices[device];
    if (to[device] == from[device] || node_.Free(to[device]) >= at.ceiling) continue;
    is_lowering = true;
    if (at.ceiling > at.used && !ceilings_.IsLowering(tenant.id, device)) ceilings_.Lower(tenant, device, at.used);
    if (node_.Free(to[device]) < at.used) ceilings_.LowerIdle(to[device], at.used, &tenant);
  }
  for (unsigned device = 0; device < to.size(); ++device) is_lowering |= ceilings_.IsLowering(tenant.id, device);
  if (is_lowering) return Room::kUnderWay;
  tenant.state = State::kMoving;
  for (std::size_t i = 0; i < to.size(); ++i) tenant.devices[i].target = to[i];
  if (lodges) tenant.lodges_on = to.front();
  actions_.Issue(Move{tenant.id, from, to});
  return Room::kReady;
}

void TenantMover::StartPark(Tenant& tenant, ParkedBy by, const std::string& why) {
  tenant.state = State::kParking;
  tenant.wants_to_wake = (by == ParkedBy::kPlanner || by == ParkedBy::kOnItsWay) && tenant.is_active;
  actions_.Issue(Park{tenant.id, why}, by);
}

void TenantMover::StartWake(Tenant& tenant, const std::vector<GpuIndex>& to) {
  tenant.state = State::kWaking;
  for (unsigned device = 0; device < to.size(); ++device) {
    Device& at = tenant.devices[device];
    at.target = to[device];
    at.ceiling = at.used;
    actions_.Issue(SetCeiling{tenant.id, device, at.ceiling});
  }
  actions_.Issue(Wake{tenant.id, to});
}

bool TenantMover::CarryOut(const NodePacking& packing, const std::vector<std::vector<int>>& to, GpuSet leaving,
                           bool may_park) {
  std::vector<std::pair<Duration, std::size_t>> movers;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto tenant = node_.tenants().find(packing.tenants[i]);
    const bool moves = to[i] != packing.problem.tenants[i].at && tenant->second.state == State::kHere;
    if (moves) movers.emplace_back(MoveCost(packing.problem, i, to[i]), i);
  }
  std::sort(movers.begin(), movers.end());
  bool is_under_way = false;
  for (const auto& [cost, i] : movers) {
    is_under_way |= StartMove(node_.tenants().at(packing.tenants[i]), packing.GpusOf(to[i])) != Room::kNone;
  }
  if (is_under_way || node_.IsAnyInFlight()) return true;
  if (!may_park) return false;
  // The tenants to be moved block each other, or use more memory than they request. One of them is moved to host memory
  // first.
  for (const bool is_asked : {true, false}) {
    for (const auto& [cost, i] : movers) {
      Tenant& tenant = node_.tenants().at(packing.tenants[i]);
      const std::vector<GpuIndex> at = GpusOf(tenant);
      const bool leaves = std::any_of(at.begin(), at.end(), [&](GpuIndex gpu) { return leaving.Contains(gpu); });
      if (leaves != is_asked || !node_.WhyKeepsGpu(tenant).empty()) continue;
      StartPark(tenant, ParkedBy::kOnItsWay, "makes room; returns on another GPU");
      return true;
    }
  }
  return false;
}

namespace {

void ForgetTargets(Tenant& tenant) {
  for (Device& device : tenant.devices) device.target.reset();
}

/// Ends the lodging of a tenant that is not on the GPU where it lodged or was to lodge.
void ForgetLodging(Tenant& tenant) {
  if (std::ranges::none_of(tenant.devices, [&](const Device& device) { return tenant.lodges_on == device.gpu; }))
    tenant.lodges_on.reset();
}

void GoToHost(Tenant& tenant, ParkedBy by, Time now) {
  ForgetTargets(tenant);
  tenant.state = State::kParked;
  tenant.lodges_on.reset();
  tenant.parked_by = by;
  tenant.last_move = now;
  for (Device& device : tenant.devices) device.ceiling = Bytes(0);
}

void Arrive(Tenant& tenant, Time now) {
  for (Device& device : tenant.devices) device.gpu = device.target.value_or(device.gpu);
  ForgetTargets(tenant);
  ForgetLodging(tenant);
  tenant.state = State::kHere;
  tenant.parked_by = ParkedBy::kNobody;
  tenant.wants_to_wake = false;
  tenant.last_move = now;
}

}  // namespace

void TenantMover::OnMoved(Tenant& tenant, const Done& done, Time now) {
  if (done.outcome == Outcome::kLost) return OnLost(tenant, done.why);
  if (done.outcome == Outcome::kDone) {
    Arrive(tenant, now);
    return Measure(tenant, done, 2);
  }
  node_.Refuse(tenant.id, AddSaturating(now, node_.settings().retry_after), "its last move failed: " + done.why);
  actions_.FailTenant(tenant.id, "could not be moved: " + done.why);
  if (done.outcome == Outcome::kParked) {
    GoToHost(tenant, ParkedBy::kOnItsWay, now);
    tenant.wants_to_wake = true;
    node_.ForgetRefusal(tenant.id);  // From the host it may wake on any GPU, and at once.
    return;
  }
  ForgetTargets(tenant);
  ForgetLodging(tenant);
  tenant.state = State::kHere;
}

void TenantMover::OnParked(Tenant& tenant, ParkedBy by, const Done& done, Time now) {
  if (done.outcome == Outcome::kLost) return OnLost(tenant, done.why);
  if (done.outcome == Outcome::kUnchanged) {
    node_.Refuse(tenant.id, AddSaturating(now, node_.settings().retry_after), "it could not be parked: " + done.why);
    actions_.FailTenant(tenant.id, "could not be parked: " + done.why);
    tenant.state = State::kHere;
    tenant.wants_to_wake = tenant.is_displaced = false;
    // The tenant's memory was moved back within its ceiling, which may have been lowered meanwhile.
    for (Device& device : tenant.devices) device.used = std::min(device.used, device.ceiling);
    return;
  }
  GoToHost(tenant, by, now);
  Measure(tenant, done, 1);
}

void TenantMover::OnWoken(Tenant& tenant, const Done& done, Time now) {
  if (done.outcome == Outcome::kLost) return OnLost(tenant, done.why);
  if (done.outcome == Outcome::kDone) {
    // A tenant that was called back counts as active, even if it was idle before it was parked.
    if (tenant.wants_to_wake) tenant.last_active = now;
    Arrive(tenant, now);
    return Measure(tenant, done, 1);
  }
  const ParkedBy by = tenant.parked_by;
  GoToHost(tenant, by, now);
  actions_.FailTenant(tenant.id, "could not be brought back: " + done.why);
  if (tenant.share.is_whole) {
    // The tenant with whole GPUs could not be woken. The scheduler decides when, and on which GPUs, that is tried
    // again.
    tenant.is_displaced = true;
    tenant.wants_to_wake = false;
    return;
  }
  node_.Refuse(tenant.id, AddSaturating(now, node_.settings().retry_after),
               "it could not be brought back: " + done.why);
}

void TenantMover::OnLost(Tenant& tenant, const std::string& why) {
  tenant.is_lost = true;
  const std::string job = std::to_string(tenant.id.job);
  actions_.FailTenant(tenant.id,
                      "was damaged while it was moved (" + why + "): divvy cancel " + job + ", then submit it again");
}

void TenantMover::OnLostEnded(TenantId id, Time now) {
  Tenant* found = node_.Find(id);
  if (found == nullptr || !found->is_lost) return;
  Tenant& tenant = *found;
  tenant.is_lost = false;
  for (Device& device : tenant.devices) device.used = Bytes(0);
  GoToHost(tenant, ParkedBy::kOnItsWay, now);
  tenant.wants_to_wake = true;
  node_.ForgetRefusal(id);
}

void TenantMover::Measure(const Tenant& tenant, const Done& done, int ways) {
  constexpr Bytes kLeastToJudge = 64_MiB;
  if (done.bytes < kLeastToJudge || done.took <= Duration(0)) return;
  const double speed = static_cast<double>(done.bytes.count()) * ways / ToSeconds(done.took);
  for (const Device& device : tenant.devices) {
    std::int64_t& known = node_.gpus().at(device.gpu).bytes_per_second;
    known = std::max<std::int64_t>(1, (3 * known + static_cast<std::int64_t>(speed)) / 4);
  }
}

}  // namespace divvy::sharing
