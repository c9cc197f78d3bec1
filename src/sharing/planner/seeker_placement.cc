#include "sharing/planner/seeker_placement.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "sharing/occupied_gpus.h"
#include "sharing/words.h"

namespace divvy::sharing {

void SeekerPlacement::PlaceSeekers(Right right) {
  // Tenants with no program that waits for the GPU come last, and only while no other tenant waits.
  const auto rank = [&](const Tenant* tenant) {
    const bool is_waited_for = tenant->state == State::kArriving || tenant->wants_to_wake;
    return std::tuple(!is_waited_for, !tenant->share.is_interactive, tenant->last_move, tenant->id);
  };
  std::vector<Tenant*> seekers;
  for (auto& [id, tenant] : node_.tenants()) {
    const bool comes_back =
        tenant.wants_to_wake || tenant.parked_by == ParkedBy::kPlanner || tenant.parked_by == ParkedBy::kOnItsWay;
    if (tenant.is_displaced || IsWithinRequest(tenant) != (right == Right::kRequest)) continue;
    if (tenant.state == State::kArriving || (tenant.state == State::kParked && comes_back)) seekers.push_back(&tenant);
  }
  std::sort(seekers.begin(), seekers.end(), [&](const Tenant* a, const Tenant* b) { return rank(a) < rank(b); });
  bool is_first = !actions_.has_waits();
  for (Tenant* seeker : seekers) {
    PlaceSeeker(*seeker, is_first);
    is_first &= seeker->state != State::kParked && seeker->state != State::kArriving;
  }
}

/// `is_first`: no earlier tenant remained without a place.
void SeekerPlacement::PlaceSeeker(Tenant& tenant, bool is_first) {
  if (std::string why = node_.WhyRefused(tenant.id); !why.empty()) {
    actions_.SetWaits(tenant.id, std::move(why));
    return;
  }
  if (tenant.state == State::kParked && !tenant.wants_to_wake && (!is_first || node_.IsParkedWaiting())) {
    actions_.SetWaits(tenant.id, "waits for room on a GPU, after other tenants");
    return;
  }
  const NodePacking packing = PackingOf(node_, {}, &tenant);
  std::vector<std::vector<GpuIndex>> places;
  for (const std::vector<int>& place : PlacesOf(packing.problem, packing.NumberOf(tenant.id))) {
    std::vector<GpuIndex> to = packing.GpusOf(place);
    if (node_.RequestsFit(tenant, to)) places.push_back(std::move(to));
  }
  if (!places.empty() && tenant.share.is_whole) {
    // A tenant with whole GPUs can only go to the GPUs that the node named, in that order.
    places = {PlannedGpusOf(tenant)};
  }
  if (!places.empty()) {
    if (tenant.state == State::kArriving) mover_.PlaceNew(tenant, places.front());
    else PlaceParked(tenant, places);
    return;
  }
  actions_.SetWaits(tenant.id, "waits until other tenants leave its GPU");
  if (tenant.state == State::kParked && !tenant.wants_to_wake) return;
  const std::optional<PackPlan> plan = Repack(packing.problem);
  if (plan && mover_.CarryOut(packing, plan->to, {})) return;
  actions_.SetWaits(tenant.id, "no GPU that it may use can be freed");
}

void SeekerPlacement::PlaceParked(Tenant& tenant, std::vector<std::vector<GpuIndex>> places) {
  const bool is_right = IsWithinRequest(tenant);
  const Time due = AddSaturating(tenant.last_move, node_.settings().memory_turn);
  if (!is_right && tenant.parked_by == ParkedBy::kPlanner && node_.now() < due) {
    actions_.SetWaits(tenant.id, "waits for its turn: it uses more than its request");
    return actions_.DecideAgainBy(due);
  }
  const auto missing = [&](unsigned device, GpuIndex gpu) { return tenant.devices[device].used - node_.Free(gpu); };
  if (!is_right) {
    // On these GPUs, borrowed memory is being returned to its owners, so a tenant that borrows cannot have it.
    std::erase_if(places, [&](const std::vector<GpuIndex>& to) {
      return std::any_of(to.begin(), to.end(), [&](GpuIndex gpu) { return repayment_.IsClaimed(gpu); });
    });
  }
  for (const auto& to : places) {
    bool has_room = true;
    for (unsigned device = 0; device < to.size(); ++device) has_room &= missing(device, to[device]) <= Bytes(0);
    if (has_room) return mover_.StartWake(tenant, to);
  }
  actions_.SetWaits(tenant.id, "waits for room on a GPU");
  for (const auto& to : places) {
    bool has_slack = true;
    for (unsigned device = 0; device < to.size(); ++device) {
      has_slack &= missing(device, to[device]) <= ceilings_.Slack(to[device], nullptr);
    }
    if (!has_slack) continue;
    for (unsigned device = 0; device < to.size(); ++device) {
      if (missing(device, to[device]) > Bytes(0)) ceilings_.LowerIdle(to[device], tenant.devices[device].used, nullptr);
    }
    return;
  }
  if (!tenant.wants_to_wake) return;
  if (!is_right) {
    for (const auto& to : places) {
      if (SwapIn(tenant, to)) return;
    }
    return;
  }
  const std::vector<GpuIndex>& to = places.front();
  for (unsigned device = 0; device < to.size(); ++device) {
    std::string why;
    repayment_.MakeRoom(to[device], tenant.devices[device].used, &tenant, Right::kRequest, &why);
    if (!why.empty()) actions_.SetWaits(tenant.id, why);
  }
}

/// Gives a borrower its turn although its memory does not fit next to the others. Idle tenants, and borrowers that had
/// their turn, are parked for it. A busy tenant within its request is not.
bool SeekerPlacement::SwapIn(Tenant& tenant, const std::vector<GpuIndex>& to) {
  std::set<TenantId> leave;
  for (unsigned device = 0; device < to.size(); ++device) {
    const Bytes needed = tenant.devices[device].used;
    if (node_.Free(to[device]) + ceilings_.Slack(to[device], nullptr) >= needed)
      continue;  // No tenant has to leave this GPU.
    if (ceilings_.IsBeingFreed(to[device])) return true;
    const std::vector<Tenant*> leaving = WhoMakesWay(to[device], needed);
    if (leaving.empty()) return false;
    for (const Tenant* other : leaving) leave.insert(other->id);
  }
  for (const TenantId id : leave) {
    mover_.StartPark(node_.tenants().at(id), ParkedBy::kPlanner, "it is the turn of " + TenantText(tenant.id));
  }
  return !leave.empty();
}

/// Returns tenants whose memory together frees `needed` bytes there, idle ones first, then the smallest. Empty if
/// impossible.
std::vector<Tenant*> SeekerPlacement::WhoMakesWay(GpuIndex gpu, Bytes needed) {
  std::vector<Tenant*> candidates;
  for (auto& [id, other] : node_.tenants()) {
    if (other.state != State::kHere || !Occupies(other, gpu) || !node_.WhyKeepsGpu(other).empty()) continue;
    const Time had_turn = AddSaturating(other.last_move, node_.settings().memory_turn);
    const bool may = node_.IsIdle(other) || (IsBorrower(other, gpu) && node_.now() >= had_turn);
    if (may) candidates.push_back(&other);
    else if (IsBorrower(other, gpu)) actions_.DecideAgainBy(had_turn);
    else if (!other.is_active) actions_.DecideAgainBy(AddSaturating(other.last_active, node_.settings().idle_after));
  }
  // Memory by which ceilings can be lowered is counted already.
  const auto freed_by = [&](const Tenant* other) {
    Bytes bytes;
    for (const Device& device : other->devices) {
      const unsigned number = static_cast<unsigned>(&device - other->devices.data());
      if (device.gpu == gpu) bytes += ceilings_.FloorOf(*other, number);
    }
    return bytes;
  };
  std::sort(candidates.begin(), candidates.end(), [&](const Tenant* a, const Tenant* b) {
    return std::tuple(!node_.IsIdle(*a), freed_by(a), a->id) < std::tuple(!node_.IsIdle(*b), freed_by(b), b->id);
  });
  Bytes coming = node_.Free(gpu) + ceilings_.Slack(gpu, nullptr);
  std::vector<Tenant*> leaving;
  for (Tenant* candidate : candidates) {
    if (coming >= needed) break;
    coming += freed_by(candidate);
    leaving.push_back(candidate);
  }
  return coming >= needed ? leaving : std::vector<Tenant*>{};
}

}  // namespace divvy::sharing
