#include "sharing/planner/repayment.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "sharing/occupied_gpus.h"
#include "sharing/words.h"

namespace divvy::sharing {

void Repayment::RemoveTenant(TenantId id) {
  OnParkEnded(id);
  shrunk_.erase(id);
  requeued_.erase(id);
}

void Repayment::SetLeft(TenantId id, unsigned device, Bytes left) {
  const Tenant* tenant = node_.Find(id);
  if (tenant == nullptr || device >= tenant->devices.size() || tenant->state != State::kParking) return;
  left_[{id, device}] = std::max(left, Bytes(0));
}

void Repayment::OnParkEnded(TenantId id) {
  std::erase_if(left_, [&](const auto& entry) { return entry.first.first == id; });
}

bool Repayment::HasShrunkLately(TenantId id) const {
  const auto asked = shrunk_.find(id);
  return asked != shrunk_.end() && node_.now() - asked->second < node_.settings().memory_turn;
}

Room Repayment::MakeRoom(GpuIndex gpu, Bytes needed, const Tenant* owner, Right right, std::string* why) {
  if (node_.Free(gpu) >= needed) return Room::kReady;
  if (right == Right::kRequest) claimed_.insert(gpu);
  if (ceilings_.IsBeingFreed(gpu)) return Room::kUnderWay;
  const bool is_slack_enough = node_.Free(gpu) + ceilings_.Slack(gpu, owner) >= needed;
  if (is_slack_enough || (right == Right::kRequest && ceilings_.Slack(gpu, owner) > Bytes(0))) {
    ceilings_.LowerIdle(gpu, needed, owner);
    return Room::kUnderWay;
  }
  const bool is_held_for_a_moment = ceilings_.IsGrantUnused(gpu, owner);
  if (right == Right::kLoan) return Room::kNone;
  if (is_held_for_a_moment || IsRequeued(gpu, owner) || IsMoreComing(gpu, owner)) return Room::kUnderWay;
  const bool is_under_way = ShrinkBorrowers(gpu, needed, owner) || MoveBorrower(gpu, needed, owner) ||
                            ParkBorrower(gpu, needed, owner, true) || ParkBorrower(gpu, needed, owner, false) ||
                            RequeueBorrower(gpu, owner);
  if (is_under_way) return Room::kUnderWay;
  if (why != nullptr) {
    *why = "GPU " + std::to_string(gpu) + " lacks " + BytesText(needed - node_.Free(gpu));
    for (const Tenant* borrower : BorrowersOf(gpu, owner)) {
      *why += "; " + TenantText(borrower->id) + " borrows memory and can neither be moved (" +
              node_.WhyStays(*borrower) + ") nor parked (" + node_.WhyKeepsGpu(*borrower) +
              "), and may not be requeued";
    }
  }
  return Room::kNone;
}

/// Returns true if an arriving tenant will have memory to give back. It can do so only after it has arrived.
bool Repayment::IsMoreComing(GpuIndex gpu, const Tenant* except) const {
  return std::any_of(node_.tenants().begin(), node_.tenants().end(), [&](const auto& entry) {
    const Tenant& tenant = entry.second;
    const bool is_arriving = tenant.state == State::kMoving || tenant.state == State::kWaking;
    if (&tenant == except || !is_arriving || tenant.is_lost) return false;
    return std::any_of(tenant.devices.begin(), tenant.devices.end(), [&](const Device& device) {
      return device.target.value_or(device.gpu) == gpu &&
             (tenant.lodges_on == gpu || device.ceiling > std::min(device.used, tenant.share.memory_request));
    });
  });
}

void Repayment::KeepBounds() {
  for (auto& [id, tenant] : node_.tenants()) {
    if (tenant.state != State::kHere) continue;
    for (unsigned device = 0; device < tenant.devices.size(); ++device) {
      const Device& at = tenant.devices[device];
      const Bytes most = std::max(tenant.share.memory_limit, at.used);
      if (at.ceiling > most && !ceilings_.IsLowering(id, device)) ceilings_.Lower(tenant, device, most);
    }
  }
  for (const auto& [index, gpu] : node_.gpus()) {
    if (gpu.why_unusable.empty() && node_.Free(index) < Bytes(0))
      MakeRoom(index, Bytes(0), nullptr, Right::kRequest, nullptr);
  }
}

void Repayment::LowerLeaving() {
  for (const auto& [key, left] : left_) {
    Tenant& tenant = node_.tenants().at(key.first);
    const Device& device = tenant.devices[key.second];
    if (device.ceiling > left && claimed_.contains(device.gpu) && !ceilings_.IsLowering(key.first, key.second))
      ceilings_.Lower(tenant, key.second, left);
  }
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

std::vector<Tenant*> Repayment::BorrowersOf(GpuIndex gpu, const Tenant* except) {
  std::vector<Tenant*> borrowers;
  for (auto& [id, tenant] : node_.tenants()) {
    if (&tenant != except && IsBorrower(tenant, gpu)) borrowers.push_back(&tenant);
  }
  return borrowers;
}

bool Repayment::ShrinkBorrowers(GpuIndex gpu, Bytes needed, const Tenant* owner) {
  bool is_asked = false;
  for (Tenant* tenant : BorrowersOf(gpu, owner)) {
    if (HasShrunkLately(tenant->id)) continue;
    for (unsigned device = 0; device < tenant->devices.size(); ++device) {
      if (tenant->devices[device].gpu != gpu) continue;
      actions_.Issue(Shrink{tenant->id, device, std::min(needed - node_.Free(gpu), Borrowed(*tenant, device))});
      is_asked = true;
    }
  }
  return is_asked;
}

bool Repayment::MoveBorrower(GpuIndex gpu, Bytes needed, const Tenant* owner) {
  std::vector<Tenant*> borrowers = BorrowersOf(gpu, owner);
  std::erase_if(borrowers,
                [&](const Tenant* tenant) { return !node_.WhyStays(*tenant).empty() || !node_.HasStayed(*tenant); });
  std::vector<Tenant*> idle = borrowers;
  std::erase_if(idle, [&](const Tenant* tenant) { return !node_.IsIdle(*tenant); });
  SortByCost(borrowers, gpu, needed - node_.Free(gpu), idle);
  for (Tenant* tenant : borrowers) {
    const NodePacking packing = PackingOf(node_, {}, nullptr);
    for (const std::vector<int>& place : PlacesOf(packing.problem, packing.NumberOf(tenant->id))) {
      const std::vector<GpuIndex> to = packing.GpusOf(place);
      if (std::count(to.begin(), to.end(), gpu) > 0) continue;
      if (mover_.StartMove(*tenant, to) != Room::kNone) return true;
    }
  }
  return false;
}

bool Repayment::ParkBorrower(GpuIndex gpu, Bytes needed, const Tenant* owner, bool is_idle) {
  std::vector<Tenant*> borrowers = BorrowersOf(gpu, owner);
  std::erase_if(borrowers, [&](const Tenant* tenant) {
    return !node_.WhyKeepsGpu(*tenant).empty() || node_.IsIdle(*tenant) != is_idle;
  });
  if (borrowers.empty()) return false;
  SortByCost(borrowers, gpu, needed - node_.Free(gpu), {});
  const std::string who = owner == nullptr ? "others" : TenantText(owner->id);
  mover_.StartPark(*borrowers.front(), ParkedBy::kPlanner, "repays " + who + " on GPU " + std::to_string(gpu));
  return true;
}

/// Returns true if a borrower on this GPU is already being requeued.
bool Repayment::IsRequeued(GpuIndex gpu, const Tenant* owner) {
  const std::vector<Tenant*> borrowers = BorrowersOf(gpu, owner);
  return std::any_of(borrowers.begin(), borrowers.end(),
                     [&](const Tenant* tenant) { return requeued_.contains(tenant->id); });
}

bool Repayment::RequeueBorrower(GpuIndex gpu, const Tenant* owner) {
  for (const Tenant* tenant : BorrowersOf(gpu, owner)) {
    if (!tenant->share.can_be_requeued) continue;
    requeued_.insert(tenant->id);
    actions_.Send(Requeue{tenant->id, owner == nullptr ? TenantId{} : owner->id, gpu,
                          UsedOn(*tenant, gpu) - tenant->share.memory_request});
    return true;
  }
  return false;
}

}  // namespace divvy::sharing
