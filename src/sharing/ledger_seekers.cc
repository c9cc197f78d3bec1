// New tenants get GPUs, and parked ones come back.
#include "sharing/holds.h"
#include "sharing/ledger.h"
#include "sharing/packing.h"
#include "sharing/words.h"

namespace divvy::sharing {

void Ledger::SeatSeekers() {
  // Who has nobody waiting for it comes last, and only while nobody else waits.
  const auto rank = [&](const Tenant* tenant) {
    const bool is_waited_for = tenant->state == State::kArriving || tenant->wants_to_wake;
    bool is_right = true;
    for (const Device& device : tenant->devices) is_right &= device.used <= tenant->share.memory_request;
    return std::tuple(!is_waited_for, !is_right, !tenant->share.is_interactive, tenant->last_move, tenant->id);
  };
  std::vector<Tenant*> seekers;
  for (auto& [id, tenant] : tenants_) {
    const bool comes_back = tenant.wants_to_wake || tenant.parked_by == ParkedBy::kLedger;
    if (tenant.state == State::kArriving || (tenant.state == State::kParked && comes_back)) seekers.push_back(&tenant);
  }
  std::sort(seekers.begin(), seekers.end(), [&](const Tenant* a, const Tenant* b) { return rank(a) < rank(b); });
  bool is_first = true;
  for (Tenant* seeker : seekers) {
    Seat(*seeker, is_first);
    is_first &= seeker->state != State::kParked && seeker->state != State::kArriving;
  }
}

/// `is_first`: nobody before it went without.
void Ledger::Seat(Tenant& tenant, bool is_first) {
  if (const auto refusal = refusals_.find(tenant.id); refusal != refusals_.end()) {
    waits_[tenant.id] = refusal->second.why;
    return;
  }
  if (tenant.state == State::kParked && !tenant.wants_to_wake && !is_first) {
    waits_[tenant.id] = "waits for room on a GPU, behind others";
    return;
  }
  const Packing packing = PackingOf({}, &tenant);
  std::vector<std::vector<GpuIndex>> places;
  for (const std::vector<int>& place : PlacesOf(packing.problem, packing.NumberOf(tenant.id))) {
    std::vector<GpuIndex> to = packing.GpusOf(place);
    if (RequestsFit(tenant, to)) places.push_back(std::move(to));
  }
  if (!places.empty()) {
    if (tenant.state == State::kArriving) PlaceNew(tenant, places.front());
    else SeatParked(tenant, places);
    return;
  }
  waits_[tenant.id] = "waits until requests of others have left its GPU";
  if (tenant.state == State::kParked && !tenant.wants_to_wake) return;
  if (const std::optional<PackPlan> plan = Repack(packing.problem)) return CarryOut(packing, plan->to, {});
  waits_[tenant.id] = "no GPU that it may have can be made free";
}

void Ledger::SeatParked(Tenant& tenant, const std::vector<std::vector<GpuIndex>>& places) {
  const auto missing = [&](unsigned device, GpuIndex gpu) { return tenant.devices[device].used - Free(gpu); };
  for (const auto& to : places) {
    bool has_room = true;
    for (unsigned device = 0; device < to.size(); ++device) has_room &= missing(device, to[device]) <= Bytes(0);
    if (has_room) return StartWake(tenant, to);
  }
  waits_[tenant.id] = "waits for room on a GPU";
  for (const auto& to : places) {
    bool has_slack = true;
    for (unsigned device = 0; device < to.size(); ++device) {
      has_slack &= missing(device, to[device]) <= Slack(to[device], nullptr);
    }
    if (!has_slack) continue;
    for (unsigned device = 0; device < to.size(); ++device) {
      if (missing(device, to[device]) > Bytes(0)) LowerIdle(to[device], tenant.devices[device].used, nullptr);
    }
    return;
  }
  if (!tenant.wants_to_wake) return;
  bool is_right = true;
  for (const Device& device : tenant.devices) is_right &= device.used <= tenant.share.memory_request;
  if (!is_right) {
    for (const auto& to : places) {
      if (SwapIn(tenant, to)) return;
    }
    return;
  }
  const std::vector<GpuIndex>& to = places.front();
  for (unsigned device = 0; device < to.size(); ++device) {
    std::string why;
    MakeRoom(to[device], tenant.devices[device].used, &tenant, Right::kRequest, &why);
    if (!why.empty()) waits_[tenant.id] = why;
  }
}

/// A borrower's turn: what it brings does not fit beside the others, so idle ones, and borrowers that had their turn,
/// go to the host for it. Nobody at work within its request does.
bool Ledger::SwapIn(Tenant& tenant, const std::vector<GpuIndex>& to) {
  const Time due = AddSaturating(tenant.last_move, settings_.memory_turn);
  if (now_ < due) {
    NoteTime(due);
    return false;
  }
  std::set<TenantId> leave;
  for (unsigned device = 0; device < to.size(); ++device) {
    const Bytes needed = tenant.devices[device].used;
    if (Free(to[device]) >= needed) continue;
    if (IsBeingFreed(to[device])) return true;
    const std::vector<Tenant*> leaving = WhoMakesWay(to[device], needed);
    if (leaving.empty()) return false;
    for (const Tenant* other : leaving) leave.insert(other->id);
  }
  for (const TenantId id : leave) {
    StartPark(tenants_.at(id), ParkedBy::kLedger, "it is the turn of " + TenantText(tenant.id));
  }
  return !leave.empty();
}

/// Whose memory together frees `needed` there, idle ones first, then the smallest. Empty: it cannot be.
std::vector<Tenant*> Ledger::WhoMakesWay(GpuIndex gpu, Bytes needed) {
  std::vector<Tenant*> candidates;
  for (auto& [id, other] : tenants_) {
    if (other.state != State::kHere || !Holds(other, gpu) || !WhyKeepsGpu(other).empty()) continue;
    const Time had_turn = AddSaturating(other.last_move, settings_.memory_turn);
    const bool may = IsIdle(other) || (IsBorrower(other, gpu) && now_ >= had_turn);
    if (may) candidates.push_back(&other);
    else if (IsBorrower(other, gpu)) NoteTime(had_turn);
    else if (!other.is_active) NoteTime(AddSaturating(other.last_active, settings_.idle_after));
  }
  // Beside slack, which is counted already.
  const auto freed_by = [&](const Tenant* other) {
    Bytes bytes;
    for (const Device& device : other->devices) {
      const unsigned number = static_cast<unsigned>(&device - other->devices.data());
      if (device.gpu == gpu) bytes += FloorOf(*other, number);
    }
    return bytes;
  };
  std::sort(candidates.begin(), candidates.end(), [&](const Tenant* a, const Tenant* b) {
    return std::tuple(!IsIdle(*a), freed_by(a), a->id) < std::tuple(!IsIdle(*b), freed_by(b), b->id);
  });
  Bytes coming = Free(gpu) + Slack(gpu, nullptr);
  std::vector<Tenant*> leaving;
  for (Tenant* candidate : candidates) {
    if (coming >= needed) break;
    coming += freed_by(candidate);
    leaving.push_back(candidate);
  }
  return coming >= needed ? leaving : std::vector<Tenant*>{};
}

}  // namespace divvy::sharing
