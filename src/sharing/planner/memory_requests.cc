#include "sharing/planner/memory_requests.h"

#include <algorithm>

#include "base/text.h"
#include "sharing/loans.h"
#include "sharing/occupied_gpus.h"
#include "sharing/words.h"

namespace divvy::sharing {

void MemoryRequests::BeginDecision() {
  std::erase_if(wishes_, [&](const auto& entry) { return entry.second.until <= node_.now(); });
}

void MemoryRequests::RemoveTenant(TenantId id) {
  std::erase_if(requests_, [&](const AllocationRequest& want) { return want.tenant == id; });
  std::erase_if(wishes_, [&](const auto& entry) { return entry.first.first == id; });
}

void MemoryRequests::Add(TenantId id, unsigned device, Bytes bytes, std::uint64_t request) {
  Tenant* tenant = node_.Find(id);
  if (tenant == nullptr || device >= tenant->devices.size()) return;
  requests_.push_back({.tenant = id, .device = device, .bytes = std::max(bytes, Bytes(0)), .request = request});
  if (tenant->state == State::kParked) node_.WantWake(id);
}

void MemoryRequests::Forget(TenantId id, std::uint64_t request) {
  std::erase_if(requests_, [&](const AllocationRequest& want) { return want.tenant == id && want.request == request; });
}

bool MemoryRequests::IsWaiting(TenantId id) const {
  return std::ranges::any_of(requests_, [id](const AllocationRequest& want) { return want.tenant == id; });
}

void MemoryRequests::AnswerAll(Right right) {
  const auto is_right = [&](const AllocationRequest& want) {
    const Tenant& tenant = node_.tenants().at(want.tenant);
    return NeedOf(want) <= tenant.share.memory_request;
  };
  // Interactive tenants first, otherwise in order of arrival.
  std::stable_sort(requests_.begin(), requests_.end(), [&](const AllocationRequest& a, const AllocationRequest& b) {
    return !node_.tenants().at(a.tenant).share.is_interactive < !node_.tenants().at(b.tenant).share.is_interactive;
  });
  std::erase_if(requests_, [&](AllocationRequest& want) {
    return is_right(want) == (right == Right::kRequest) && AnswerRequest(want);
  });
}

/// Returns the total need, including memory just granted to the tenant's other processes and not in use yet.
Bytes MemoryRequests::NeedOf(const AllocationRequest& want) const {
  return ceilings_.FloorOf(node_.tenants().at(want.tenant), want.device) + want.bytes;
}

/// Returns true if the request was answered.
bool MemoryRequests::AnswerRequest(AllocationRequest& want) {
  Tenant& tenant = node_.tenants().at(want.tenant);
  const Bytes need = NeedOf(want);
  if (need > tenant.share.memory_limit) {
    return Deny(want, BytesText(need) + " is above its limit of " + BytesText(tenant.share.memory_limit));
  }
  if (tenant.state == State::kParked) node_.WantWake(tenant.id);
  if (tenant.is_lost)
    return Deny(want, "it was damaged while it was moved; divvy cancel " + std::to_string(tenant.id.job) +
                          ", then submit it again");
  if (tenant.state != State::kHere || ceilings_.IsLowering(want.tenant, want.device)) return false;
  if (need > tenant.share.memory_request) return AnswerLoan(want, tenant, need);
  return tenant.lodges_on ? AnswerLodger(want, tenant, need) : AnswerRight(want, tenant, need);
}

/// Takes nothing from tenants that are planned there: if memory is short, it gets its right at home.
bool MemoryRequests::AnswerLodger(const AllocationRequest& want, Tenant& tenant, Bytes need) {
  const Device& device = tenant.devices[want.device];
  const Room room = repayment_.MakeRoom(device.gpu, need - device.ceiling, &tenant, Right::kLoan, nullptr);
  if (room == Room::kReady) {
    Grant(want, tenant, need, tenant.share.memory_request);
    return true;
  }
  if (room == Room::kNone && repayment_.SendHome(tenant) == Room::kNone)
    return Deny(want, "there is no room on GPU " + std::to_string(device.gpu));
  actions_.SetWaits(want.tenant, "waits until it is back on its planned GPU");
  return false;
}

bool MemoryRequests::AnswerRight(const AllocationRequest& want, Tenant& tenant, Bytes need) {
  const Device& device = tenant.devices[want.device];
  std::string why = "there is no room on GPU " + std::to_string(device.gpu);
  switch (repayment_.MakeRoom(device.gpu, need - device.ceiling, &tenant, Right::kRequest, &why)) {
    case Room::kReady:
      Grant(want, tenant, need, tenant.share.memory_request);
      return true;
    case Room::kUnderWay:
      actions_.SetWaits(want.tenant, "waits until other tenants return borrowed memory");
      return false;
    case Room::kNone:
      return Deny(want, why);
  }
  return false;
}

/// Returns the bytes that loans leave free on the GPU.
Bytes MemoryRequests::GrowthRoom(GpuIndex gpu) const {
  const auto tenants = std::count_if(node_.tenants().begin(), node_.tenants().end(), [&](const auto& entry) {
    return entry.second.state == State::kHere && Occupies(entry.second, gpu);
  });
  return Bytes(std::min(node_.settings().growth.count(), node_.gpus().at(gpu).capacity.count() / 64) * tenants);
}

bool MemoryRequests::AnswerLoan(AllocationRequest& want, Tenant& tenant, Bytes need) {
  const Device& device = tenant.devices[want.device];
  const std::string gpu = "GPU " + std::to_string(device.gpu);
  const Bytes borrows = need - tenant.share.memory_request;
  const bool is_claimed = repayment_.IsClaimed(device.gpu);
  if (is_claimed || node_.IsParkedWaiting()) {
    // The shortage usually ends soon, and a program that gets no memory may fail.
    if (want.waits_until == kNoTime) want.waits_until = AddSaturating(node_.now(), node_.settings().loan_waits);
    const char* const until = is_claimed ? "until borrowed memory is returned to others"
                                         : "until tenants that wait on the host are back on a GPU";
    if (node_.now() >= want.waits_until) return Deny(want, gpu + " lends no memory " + until);
    actions_.SetWaits(want.tenant, std::string("waits ") + until);
    actions_.DecideAgainBy(want.waits_until);
    return false;
  }
  const bool is_bound = pins_.IsAboutToBeBound(tenant.id);
  const bool can_leave = !is_bound && (tenant.why_cannot_park.empty() || tenant.why_cannot_move.empty());
  if (!can_leave && !tenant.share.can_be_requeued) {
    return Deny(want, "it could not return memory above its request of " + BytesText(tenant.share.memory_request) +
                          ": " +
                          (is_bound ? "one of its calls is about to bind it to " + gpu : tenant.why_cannot_park));
  }
  const Bytes part = LoanPart(tenant, device.gpu, need);
  if (borrows > part) {
    wishes_[{tenant.id, want.device}] = {need, AddSaturating(node_.now(), node_.settings().wish_lasts)};
    return Deny(want, "other tenants want to borrow on " + gpu + " too; its part is " + BytesText(part));
  }
  switch (
      repayment_.MakeRoom(device.gpu, need - device.ceiling + GrowthRoom(device.gpu), &tenant, Right::kLoan, nullptr)) {
    case Room::kReady:
      Grant(want, tenant, need, tenant.share.memory_limit);
      return true;
    case Room::kUnderWay:
      return false;
    case Room::kNone:
      break;
  }
  wishes_[{tenant.id, want.device}] = {need, AddSaturating(node_.now(), node_.settings().wish_lasts)};
  return Deny(want, gpu + " does not have enough memory to lend");
}

void MemoryRequests::Grant(const AllocationRequest& want, Tenant& tenant, Bytes need, Bytes most) {
  const Device& device = tenant.devices[want.device];
  // Grants a little more than the process requested, so that not every allocation needs a request to the keeper.
  const Bytes left = need > tenant.share.memory_request ? GrowthRoom(device.gpu) : Bytes(0);
  const Bytes comfortable = std::min(
      {most, need + node_.settings().grain, device.ceiling + std::max(node_.Free(device.gpu) - left, Bytes(0))});
  ceilings_.Grant(tenant, want.device, std::max({device.ceiling, need, comfortable}), need);
  wishes_.erase({tenant.id, want.device});
  actions_.Send(Answer{tenant.id, want.device, want.request, true, ""});
}

bool MemoryRequests::Deny(const AllocationRequest& want, std::string why) {
  actions_.Send(Answer{want.tenant, want.device, want.request, false, std::move(why)});
  return true;
}

/// Returns how much of the GPU's idle memory this tenant may borrow when its total need is `need`. Without recently
/// denied competitors it may borrow all of it, otherwise its share by weight.
Bytes MemoryRequests::LoanPart(const Tenant& tenant, GpuIndex gpu, Bytes need) const {
  Bytes idle = node_.gpus().at(gpu).capacity;
  bool is_contested = false;
  std::vector<Borrower> borrowers = {{tenant.share.memory_request, need - tenant.share.memory_request}};
  for (const auto& [id, other] : node_.tenants()) {
    for (unsigned device = 0; device < other.devices.size(); ++device) {
      if (other.state != State::kHere || other.devices[device].gpu != gpu) continue;
      const Bytes right = other.share.memory_request;
      idle -= std::min(&other == &tenant ? std::max(need, right) : other.devices[device].used, right);
      if (&other == &tenant) continue;
      const auto wish = wishes_.find({id, device});
      const Bytes has = Borrowed(other, device);
      const Bytes wants = wish == wishes_.end() ? has : std::max(has, wish->second.need - right);
      is_contested |= wants > has;
      if (wants > Bytes(0)) borrowers.push_back({right, wants});
    }
  }
  return is_contested ? DivideIdle(idle, borrowers).front() : need - tenant.share.memory_request;
}

}  // namespace divvy::sharing
