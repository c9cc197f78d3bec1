// How the ledger handles the results of orders.
#include "sharing/holds.h"
#include "sharing/ledger.h"
#include "sharing/words.h"

namespace divvy::sharing {

void SharePlanner::OnDone(std::uint64_t order, const Done& done, Time now) {
  const auto at = in_flight_.find(order);
  if (at == in_flight_.end()) return;  // The tenant was removed meanwhile.
  const InFlight ended = std::move(at->second);
  in_flight_.erase(at);
  if (const auto* ceiling = std::get_if<SetCeiling>(&ended.deed)) return OnCeiling(*ceiling, done.bytes);
  if (const auto* shrink = std::get_if<Shrink>(&ended.deed)) {
    shrunk_[shrink->tenant] = now;
    return;
  }
  if (const auto* move = std::get_if<Move>(&ended.deed)) return OnMoved(tenants_.at(move->tenant), done, now);
  if (const auto* park = std::get_if<Park>(&ended.deed)) {
    return OnParked(tenants_.at(park->tenant), ended.parked_by, done, now);
  }
  if (const auto* wake = std::get_if<Wake>(&ended.deed)) OnWoken(tenants_.at(wake->tenant), done, now);
}

void SharePlanner::OnCeiling(const SetCeiling& order, Bytes bytes) {
  Device& device = tenants_.at(order.tenant).devices[order.device];
  const bool was_lowering = lowering_.erase({order.tenant, order.device}) > 0;
  if (tenants_.at(order.tenant).state == State::kParked) return;  // It was parked meanwhile.
  if (was_lowering) device.ceiling = std::max(bytes, Bytes(0));
  if (bytes <= order.bytes) return;
  // It uses more than it last reported.
  device.used = std::max(device.used, bytes);
  device.ceiling = std::max(device.ceiling, bytes);
}

namespace {

void ForgetTargets(Tenant& tenant) {
  for (Device& device : tenant.devices) device.target.reset();
}

void GoToHost(Tenant& tenant, ParkedBy by, Time now) {
  ForgetTargets(tenant);
  tenant.state = State::kParked;
  tenant.parked_by = by;
  tenant.last_move = now;
  for (Device& device : tenant.devices) device.ceiling = Bytes(0);
}

void Arrive(Tenant& tenant, Time now) {
  for (Device& device : tenant.devices) device.gpu = device.target.value_or(device.gpu);
  ForgetTargets(tenant);
  tenant.state = State::kHere;
  tenant.parked_by = ParkedBy::kNobody;
  tenant.wants_to_wake = false;
  tenant.last_move = now;
}

}  // namespace

void SharePlanner::OnMoved(Tenant& tenant, const Done& done, Time now) {
  if (done.outcome == Outcome::kLost) return OnLost(tenant, done.why);
  if (done.outcome == Outcome::kDone) {
    Arrive(tenant, now);
    return Measure(tenant, done, 2);
  }
  refusals_[tenant.id] = {AddSaturating(now, settings_.retry_after), "its last move failed: " + done.why};
  FailTenant(tenant.id, "could not be moved: " + done.why);
  if (done.outcome == Outcome::kParked) {
    GoToHost(tenant, ParkedBy::kOnItsWay, now);
    tenant.wants_to_wake = true;
    refusals_.erase(tenant.id);  // From the host it may wake on any GPU, and at once.
    return;
  }
  ForgetTargets(tenant);
  tenant.state = State::kHere;
}

void SharePlanner::OnParked(Tenant& tenant, ParkedBy by, const Done& done, Time now) {
  std::erase_if(left_, [&](const auto& entry) { return entry.first.first == tenant.id; });
  if (done.outcome == Outcome::kLost) return OnLost(tenant, done.why);
  if (done.outcome == Outcome::kUnchanged) {
    refusals_[tenant.id] = {AddSaturating(now, settings_.retry_after), "it could not be parked: " + done.why};
    FailTenant(tenant.id, "could not be parked: " + done.why);
    tenant.state = State::kHere;
    tenant.wants_to_wake = false;
    // It was restored within its ceiling, which may have been lowered meanwhile.
    for (Device& device : tenant.devices) device.used = std::min(device.used, device.ceiling);
    return;
  }
  GoToHost(tenant, by, now);
  Measure(tenant, done, 1);
}

void SharePlanner::OnWoken(Tenant& tenant, const Done& done, Time now) {
  if (done.outcome == Outcome::kLost) return OnLost(tenant, done.why);
  if (done.outcome == Outcome::kDone) {
    // A tenant that was called back counts as active, even if it was idle before it was parked.
    if (tenant.wants_to_wake) tenant.last_active = now;
    Arrive(tenant, now);
    return Measure(tenant, done, 1);
  }
  const ParkedBy by = tenant.parked_by;
  GoToHost(tenant, by, now);
  refusals_[tenant.id] = {AddSaturating(now, settings_.retry_after), "it could not be brought back: " + done.why};
  FailTenant(tenant.id, "could not be brought back: " + done.why);
}

void SharePlanner::OnLost(Tenant& tenant, const std::string& why) {
  tenant.is_lost = true;
  const std::string job = std::to_string(tenant.id.job);
  FailTenant(tenant.id, "was damaged while it was moved (" + why + "): divvy cancel " + job + ", then submit it again");
}

void SharePlanner::OnLostEnded(TenantId id, Time now) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end() || !at->second.is_lost) return;
  Tenant& tenant = at->second;
  tenant.is_lost = false;
  for (Device& device : tenant.devices) device.used = Bytes(0);
  GoToHost(tenant, ParkedBy::kOnItsWay, now);
  tenant.wants_to_wake = true;
  refusals_.erase(id);
}

void SharePlanner::Measure(const Tenant& tenant, const Done& done, int ways) {
  constexpr Bytes kLeastToJudge = 64_MiB;
  if (done.bytes < kLeastToJudge || done.took <= Duration(0)) return;
  const double speed = static_cast<double>(done.bytes.count()) * ways / ToSeconds(done.took);
  for (const Device& device : tenant.devices) {
    std::int64_t& known = gpus_.at(device.gpu).bytes_per_second;
    known = std::max<std::int64_t>(1, (3 * known + static_cast<std::int64_t>(speed)) / 4);
  }
}

}  // namespace divvy::sharing
