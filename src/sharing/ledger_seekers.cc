// Placement of new tenants and waking of parked ones.
#include "sharing/holds.h"
#include "sharing/ledger.h"
#include "sharing/packing.h"
#include "sharing/words.h"

namespace divvy::sharing {

bool SharePlanner::IsWithinRequest(const Tenant& tenant) {
  return std::all_of(tenant.devices.begin(), tenant.devices.end(),
                     [&](const Device& device) { return device.used <= tenant.share.memory_request; });
}

/// Returns true if a parked tenant has a waiting call.
bool SharePlanner::IsParkedWaiting() const {
  return std::any_of(tenants_.begin(), tenants_.end(), [](const auto& entry) {
    return entry.second.state == State::kParked && entry.second.wants_to_wake;
  });
}

/// `right`: handles tenants within their requests, or those above them.
void SharePlanner::SeatSeekers(Right right) {
  // Tenants without a waiting call come last, and only while no other tenant waits.
  const auto rank = [&](const Tenant* tenant) {
    const bool is_waited_for = tenant->state == State::kArriving || tenant->wants_to_wake;
    return std::tuple(!is_waited_for, !tenant->share.is_interactive, tenant->last_move, tenant->id);
  };
  std::vector<Tenant*> seekers;
  for (auto& [id, tenant] : tenants_) {
    const bool comes_back =
        tenant.wants_to_wake || tenant.parked_by == ParkedBy::kLedger || tenant.parked_by == ParkedBy::kOnItsWay;
    if (IsWithinRequest(tenant) != (right == Right::kRequest)) continue;
    if (tenant.state == State::kArriving || (tenant.state == State::kParked && comes_back)) seekers.push_back(&tenant);
  }
  std::sort(seekers.begin(), seekers.end(), [&](const Tenant* a, const Tenant* b) { return rank(a) < rank(b); });
  bool is_first = waits_.empty();
  for (Tenant* seeker : seekers) {
    Seat(*seeker, is_first);
    is_first &= seeker->state != State::kParked && seeker->state != State::kArriving;
  }
}

/// `is_first`: no earlier tenant remained without a place.
void SharePlanner::Seat(Tenant& tenant, bool is_first) {
  if (const auto refusal = refusals_.find(tenant.id); refusal != refusals_.end()) {
    waits_[tenant.id] = refusal->second.why;
    return;
  }
  if (tenant.state == State::kParked && !tenant.wants_to_wake && (!is_first || IsParkedWaiting())) {
    waits_[tenant.id] = "waits for room on a GPU, after other tenants";
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
  waits_[tenant.id] = "waits until other tenants leave its GPU";
  if (tenant.state == State::kParked && !tenant.wants_to_wake) return;
  const std::optional<PackPlan> plan = Repack(packing.problem);
  if (plan && CarryOut(packing, plan->to, {})) return;
  waits_[tenant.id] = "no GPU that it may use can be freed";
}

void SharePlanner::SeatParked(Tenant& tenant, std::vector<std::vector<GpuIndex>> places) {
  const bool is_right = IsWithinRequest(tenant);
  const Time due = AddSaturating(tenant.last_move, settings_.memory_turn);
  if (!is_right && tenant.parked_by == ParkedBy::kLedger && now_ < due) {
    waits_[tenant.id] = "waits for its turn: it uses more than its request";
    return NoteTime(due);
  }
  const auto missing = [&](unsigned device, GpuIndex gpu) { return tenant.devices[device].used - Free(gpu); };
  if (!is_right) {
    // Memory being repaid there is not available to a borrower.
    std::erase_if(places, [&](const std::vector<GpuIndex>& to) {
      return std::any_of(to.begin(), to.end(), [&](GpuIndex gpu) { return claimed_.contains(gpu); });
    });
  }
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

/// Gives a borrower its turn although its memory does not fit next to the others. Idle tenants, and borrowers that had
/// their turn, are parked for it. A busy tenant within its request is not.
bool SharePlanner::SwapIn(Tenant& tenant, const std::vector<GpuIndex>& to) {
  std::set<TenantId> leave;
  for (unsigned device = 0; device < to.size(); ++device) {
    const Bytes needed = tenant.devices[device].used;
    if (Free(to[device]) + Slack(to[device], nullptr) >= needed) continue;  // No tenant has to leave this GPU.
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

/// Returns tenants whose memory together frees `needed` bytes there, idle ones first, then the smallest. Empty if
/// impossible.
std::vector<Tenant*> SharePlanner::WhoMakesWay(GpuIndex gpu, Bytes needed) {
  std::vector<Tenant*> candidates;
  for (auto& [id, other] : tenants_) {
    if (other.state != State::kHere || !Holds(other, gpu) || !WhyKeepsGpu(other).empty()) continue;
    const Time had_turn = AddSaturating(other.last_move, settings_.memory_turn);
    const bool may = IsIdle(other) || (IsBorrower(other, gpu) && now_ >= had_turn);
    if (may) candidates.push_back(&other);
    else if (IsBorrower(other, gpu)) NoteTime(had_turn);
    else if (!other.is_active) NoteTime(AddSaturating(other.last_active, settings_.idle_after));
  }
  // Slack is already counted.
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
