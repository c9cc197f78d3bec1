// Makes room on a GPU: the steps by which loans are repaid (docs/sharing-design.md, "Repaying").
#include "sharing/holds.h"
#include "sharing/ledger.h"
#include "sharing/packing.h"
#include "sharing/words.h"

namespace divvy::sharing {

/// Makes `needed` bytes free on `gpu` for `owner`; null: to get back within the capacity. Takes one step at a time and
/// waits for orders in flight first.
SharePlanner::Room SharePlanner::MakeRoom(GpuIndex gpu, Bytes needed, const Tenant* owner, Right right,
                                          std::string* why) {
  if (Free(gpu) >= needed) return Room::kReady;
  if (right == Right::kRequest) claimed_.insert(gpu);
  if (IsBeingFreed(gpu)) return Room::kUnderWay;
  const bool is_slack_enough = Free(gpu) + Slack(gpu, owner) >= needed;
  if (is_slack_enough || (right == Right::kRequest && Slack(gpu, owner) > Bytes(0))) {
    LowerIdle(gpu, needed, owner);
    return Room::kUnderWay;
  }
  const bool is_held_for_a_moment = std::any_of(granted_.begin(), granted_.end(), [&](const auto& entry) {
    const Tenant& other = tenants_.at(entry.first.first);
    const Device& device = other.devices[entry.first.second];
    if (&other == owner || device.gpu != gpu || device.ceiling <= device.used) return false;
    NoteTime(entry.second.until);
    return true;
  });
  if (right == Right::kLoan) return Room::kNone;
  if (is_held_for_a_moment || IsRequeued(gpu, owner) || IsMoreComing(gpu, owner)) return Room::kUnderWay;
  const bool is_under_way = ShrinkBorrowers(gpu, needed, owner) || MoveBorrower(gpu, needed, owner) ||
                            ParkBorrower(gpu, needed, owner, true) || ParkBorrower(gpu, needed, owner, false) ||
                            RequeueBorrower(gpu, owner);
  if (is_under_way) return Room::kUnderWay;
  if (why != nullptr) {
    *why = "GPU " + std::to_string(gpu) + " lacks " + BytesText(needed - Free(gpu));
    for (const Tenant* borrower : BorrowersOf(gpu, owner)) {
      *why += "; " + TenantText(borrower->id) + " borrows memory and can neither be moved (" + WhyStays(*borrower) +
              ") nor parked (" + WhyKeepsGpu(*borrower) + "), and may not be requeued";
    }
  }
  return Room::kNone;
}

bool SharePlanner::IsBeingFreed(GpuIndex gpu) const {
  for (const auto& [id, flight] : in_flight_) {
    const Deed& deed = flight.deed;
    const auto is_there = [&](TenantId tenant) { return Holds(tenants_.at(tenant), gpu); };
    if (const auto* move = std::get_if<Move>(&deed)) {
      // This also covers two devices that exchange GPUs: each counts on both GPUs until the move ends.
      for (std::size_t device = 0; device < move->from.size(); ++device) {
        if (move->from[device] == gpu && move->to[device] != gpu) return true;
      }
    }
    if (const auto* park = std::get_if<Park>(&deed); park != nullptr && is_there(park->tenant)) return true;
    if (const auto* shrink = std::get_if<Shrink>(&deed)) {
      if (tenants_.at(shrink->tenant).devices[shrink->device].gpu == gpu) return true;
    }
  }
  for (const DeviceKey& key : lowering_) {
    if (tenants_.at(key.first).devices[key.second].gpu == gpu) return true;
  }
  return false;
}

/// Returns true if an arriving tenant will have memory to give back. It can do so only after it has arrived.
bool SharePlanner::IsMoreComing(GpuIndex gpu, const Tenant* except) const {
  return std::any_of(tenants_.begin(), tenants_.end(), [&](const auto& entry) {
    const Tenant& tenant = entry.second;
    const bool is_arriving = tenant.state == State::kMoving || tenant.state == State::kWaking;
    if (&tenant == except || !is_arriving || tenant.is_lost) return false;
    return std::any_of(tenant.devices.begin(), tenant.devices.end(), [&](const Device& device) {
      return device.target.value_or(device.gpu) == gpu &&
             device.ceiling > std::min(device.used, tenant.share.memory_request);
    });
  });
}

Bytes SharePlanner::FloorOf(const Tenant& tenant, unsigned device) const {
  const auto granted = granted_.find({tenant.id, device});
  const Bytes used = tenant.devices[device].used;
  return granted == granted_.end() ? used : std::max(used, granted->second.need);
}

Bytes SharePlanner::Slack(GpuIndex gpu, const Tenant* except) const {
  Bytes slack;
  for (const auto& [id, tenant] : tenants_) {
    if (&tenant == except || tenant.state != State::kHere) continue;
    for (unsigned device = 0; device < tenant.devices.size(); ++device) {
      if (tenant.devices[device].gpu != gpu) continue;
      slack += std::max(tenant.devices[device].ceiling - FloorOf(tenant, device), Bytes(0));
    }
  }
  return slack;
}

void SharePlanner::LowerIdle(GpuIndex gpu, Bytes needed, const Tenant* except) {
  // First unused loans, then the slack of idle tenants, then the slack of busy ones.
  for (int pass = 0; pass < 3; ++pass) {
    for (auto& [id, tenant] : tenants_) {
      if (&tenant == except || tenant.state != State::kHere) continue;
      if (pass == 1 && !IsIdle(tenant)) continue;
      for (unsigned device = 0; device < tenant.devices.size(); ++device) {
        const Bytes short_of = needed - Free(gpu);
        Bytes coming;
        for (const DeviceKey& key : lowering_) {
          const Device& lowered = tenants_.at(key.first).devices[key.second];
          if (lowered.gpu == gpu)
            coming += std::max(lowered.ceiling - FloorOf(tenants_.at(key.first), key.second), Bytes(0));
        }
        if (coming >= short_of) return;
        const Device& at = tenant.devices[device];
        if (at.gpu != gpu || lowering_.contains({id, device})) continue;
        const Bytes floor = FloorOf(tenant, device);
        if (at.ceiling <= floor || (pass == 0 && at.ceiling <= tenant.share.memory_request)) continue;
        Lower(tenant, device, floor);
      }
    }
  }
}

void SharePlanner::Lower(Tenant& tenant, unsigned device, Bytes bytes) {
  lowering_.insert({tenant.id, device});
  Issue(SetCeiling{tenant.id, device, bytes});
}

/// Makes memory that has already left a GPU available to tenants that wait for room there.
void SharePlanner::LowerLeaving() {
  for (const auto& [key, left] : left_) {
    Tenant& tenant = tenants_.at(key.first);
    const Device& device = tenant.devices[key.second];
    if (device.ceiling > left && claimed_.contains(device.gpu) && !lowering_.contains(key))
      Lower(tenant, key.second, left);
  }
}

/// Lowers ceilings above the tenant's limit, unless the memory is in use. Reclaims room on GPUs that residuals or a
/// changed capacity pushed over their capacity.
void SharePlanner::KeepBounds() {
  for (auto& [id, tenant] : tenants_) {
    if (tenant.state != State::kHere) continue;
    for (unsigned device = 0; device < tenant.devices.size(); ++device) {
      const Device& at = tenant.devices[device];
      const Bytes most = std::max(tenant.share.memory_limit, at.used);
      if (at.ceiling > most && !lowering_.contains({id, device})) Lower(tenant, device, most);
    }
  }
  for (const auto& [index, gpu] : gpus_) {
    if (gpu.why_unusable.empty() && Free(index) < Bytes(0))
      MakeRoom(index, Bytes(0), nullptr, Right::kRequest, nullptr);
  }
}

std::vector<Tenant*> SharePlanner::BorrowersOf(GpuIndex gpu, const Tenant* except) {
  std::vector<Tenant*> borrowers;
  for (auto& [id, tenant] : tenants_) {
    if (&tenant != except && IsBorrower(tenant, gpu)) borrowers.push_back(&tenant);
  }
  return borrowers;
}

bool SharePlanner::ShrinkBorrowers(GpuIndex gpu, Bytes needed, const Tenant* owner) {
  bool is_asked = false;
  for (Tenant* tenant : BorrowersOf(gpu, owner)) {
    const auto asked = shrunk_.find(tenant->id);
    if (asked != shrunk_.end() && now_ - asked->second < settings_.memory_turn) continue;
    for (unsigned device = 0; device < tenant->devices.size(); ++device) {
      if (tenant->devices[device].gpu != gpu) continue;
      Issue(Shrink{tenant->id, device, std::min(needed - Free(gpu), Borrowed(*tenant, device))});
      is_asked = true;
    }
  }
  return is_asked;
}

namespace {

Bytes UsedOn(const Tenant& tenant, GpuIndex gpu) {
  for (const Device& device : tenant.devices) {
    if (device.gpu == gpu) return device.used;
  }
  return {};
}

/// Sorts idle tenants first. Next come tenants that suffice alone, smallest first, then the others, largest first.
void SortByCost(std::vector<Tenant*>& tenants, GpuIndex gpu, Bytes missing, const std::vector<Tenant*>& idle) {
  const auto rank = [&](const Tenant* tenant) {
    const Bytes used = UsedOn(*tenant, gpu);
    const bool is_idle = std::count(idle.begin(), idle.end(), tenant) > 0;
    const bool suffices = used >= missing;
    return std::tuple(!suffices, !is_idle, suffices ? used.count() : -used.count(), tenant->id);
  };
  std::sort(tenants.begin(), tenants.end(), [&](const Tenant* a, const Tenant* b) { return rank(a) < rank(b); });
}

}  // namespace

bool SharePlanner::MoveBorrower(GpuIndex gpu, Bytes needed, const Tenant* owner) {
  std::vector<Tenant*> borrowers = BorrowersOf(gpu, owner);
  std::erase_if(borrowers, [&](const Tenant* tenant) { return !WhyStays(*tenant).empty() || !HasStayed(*tenant); });
  std::vector<Tenant*> idle = borrowers;
  std::erase_if(idle, [&](const Tenant* tenant) { return !IsIdle(*tenant); });
  SortByCost(borrowers, gpu, needed - Free(gpu), idle);
  for (Tenant* tenant : borrowers) {
    const Packing packing = PackingOf({}, nullptr);
    for (const std::vector<int>& place : PlacesOf(packing.problem, packing.NumberOf(tenant->id))) {
      const std::vector<GpuIndex> to = packing.GpusOf(place);
      if (std::count(to.begin(), to.end(), gpu) > 0) continue;
      if (StartMove(*tenant, to) != Room::kNone) return true;
    }
  }
  return false;
}

bool SharePlanner::ParkBorrower(GpuIndex gpu, Bytes needed, const Tenant* owner, bool is_idle) {
  std::vector<Tenant*> borrowers = BorrowersOf(gpu, owner);
  std::erase_if(borrowers,
                [&](const Tenant* tenant) { return !WhyKeepsGpu(*tenant).empty() || IsIdle(*tenant) != is_idle; });
  if (borrowers.empty()) return false;
  SortByCost(borrowers, gpu, needed - Free(gpu), {});
  const std::string who = owner == nullptr ? "others" : TenantText(owner->id);
  StartPark(*borrowers.front(), ParkedBy::kLedger, "repays " + who + " on GPU " + std::to_string(gpu));
  return true;
}

/// Returns true if a borrower on this GPU is already being requeued.
bool SharePlanner::IsRequeued(GpuIndex gpu, const Tenant* owner) {
  const std::vector<Tenant*> borrowers = BorrowersOf(gpu, owner);
  return std::any_of(borrowers.begin(), borrowers.end(),
                     [&](const Tenant* tenant) { return requeued_.contains(tenant->id); });
}

bool SharePlanner::RequeueBorrower(GpuIndex gpu, const Tenant* owner) {
  for (const Tenant* tenant : BorrowersOf(gpu, owner)) {
    if (!tenant->share.can_be_requeued) continue;
    requeued_.insert(tenant->id);
    Say(Requeue{tenant->id, owner == nullptr ? TenantId{} : owner->id, gpu,
                UsedOn(*tenant, gpu) - tenant->share.memory_request});
    return true;
  }
  return false;
}

}  // namespace divvy::sharing
