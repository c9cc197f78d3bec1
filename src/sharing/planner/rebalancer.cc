#include "sharing/planner/rebalancer.h"

#include <algorithm>
#include <tuple>

#include "sharing/occupied_gpus.h"

namespace divvy::sharing {
namespace {

/// A tenant may move from a GPU that is used for at least kMuch of its time to one that is used for less than kLittle.
constexpr GpuShare kLittle = GpuShare(GpuShare::kWhole / 4);
constexpr GpuShare kMuch = GpuShare(GpuShare::kWhole / 4 * 3);
/// A tenant that lodges on a GPU leaves it when the others there use at least this much of its time.
constexpr GpuShare kHalf = GpuShare(GpuShare::kWhole / 2);

}  // namespace

void Rebalancer::ParkIdle() {
  for (auto& [id, tenant] : node_.tenants()) {
    const bool can = tenant.state == State::kHere && tenant.share.idle_park > Duration(0) && !tenant.is_active &&
                     node_.WhyKeepsGpu(tenant).empty();
    if (!can || requests_.IsWaiting(id) || pins_.IsWaiting(id)) continue;
    const Time due = AddSaturating(tenant.last_active, tenant.share.idle_park);
    if (node_.now() < due) actions_.DecideAgainBy(due);
    else mover_.StartPark(tenant, ParkedBy::kIdle, "idle");
  }
}

void Rebalancer::EndLodging() {
  for (auto& [id, tenant] : node_.tenants()) {
    if (!tenant.lodges_on || tenant.state != State::kHere) continue;
    if (node_.TimeUsedOn(*tenant.lodges_on) - tenant.time_used < kHalf) continue;
    if (node_.HasStayed(tenant)) mover_.SendHome(tenant);
    else actions_.DecideAgainBy(AddSaturating(tenant.last_move, node_.settings().least_stay));
  }
}

void Rebalancer::Spread() {
  if (!node_.settings().can_spread || !requests_.is_empty() || actions_.has_waits() || !actions_.in_flight().empty())
    return;
  for (const Quiet how : {Quiet::kEmpty, Quiet::kIdle, Quiet::kHardlyUsed}) {
    for (const auto& [quiet, gpu] : node_.gpus()) {
      if (!node_.IsOpen(quiet) || !Is(quiet, how) || !HasStoodEmpty(quiet)) continue;
      for (const auto& [crowded, other] : node_.gpus()) {
        if (crowded != quiet && other.kind == gpu.kind && other.whole_job == 0 &&
            SpreadFrom(crowded, quiet, how == Quiet::kHardlyUsed))
          return;
      }
    }
  }
}

bool Rebalancer::Is(GpuIndex gpu, Quiet quiet) {
  if (node_.LoadOf(gpu).tenants == 0) return quiet == Quiet::kEmpty;
  switch (quiet) {
    case Quiet::kEmpty:
      return false;
    case Quiet::kIdle:
      return AreAllIdle(gpu);
    case Quiet::kHardlyUsed:
      return IsHardlyUsed(gpu);
  }
  return false;
}

/// Returns true if the tenants there leave most of the GPU's time. Tenants that have just come may not have begun.
bool Rebalancer::IsHardlyUsed(GpuIndex gpu) {
  if (node_.TimeUsedOn(gpu) >= kLittle) return false;
  return std::ranges::all_of(node_.tenants(), [&](const auto& entry) {
    if (!Occupies(entry.second, gpu)) return true;
    const Time due = AddSaturating(entry.second.last_move, node_.settings().stood_empty);
    if (node_.now() < due) actions_.DecideAgainBy(due);
    return node_.now() >= due;
  });
}

/// Returns true if the GPU has been empty long enough. When whole jobs follow one another (an array or a queue), the
/// next one would only have to move a tenant away again.
bool Rebalancer::HasStoodEmpty(GpuIndex gpu) {
  const Time left_at = node_.WholeLeftAt(gpu);
  if (left_at == kNoTime) return true;
  const Time due = AddSaturating(left_at, node_.settings().stood_empty);
  if (node_.now() < due) actions_.DecideAgainBy(due);
  return node_.now() >= due;
}

/// Returns true if all tenants there have been idle for `idle_after`.
bool Rebalancer::AreAllIdle(GpuIndex gpu) {
  return std::ranges::all_of(node_.tenants(), [&](const auto& entry) {
    const Tenant& tenant = entry.second;
    if (!Occupies(tenant, gpu)) return true;
    if (!tenant.is_active && !node_.IsIdle(tenant))
      actions_.DecideAgainBy(AddSaturating(tenant.last_active, node_.settings().idle_after));
    return node_.IsIdle(tenant);
  });
}

bool Rebalancer::SpreadFrom(GpuIndex crowded, GpuIndex quiet, bool only_borrowers) {
  if (only_borrowers && node_.TimeUsedOn(crowded) < kMuch) return false;
  int busy = 0;
  bool can_gain = false;  // A tenant there can use more than its request.
  std::vector<Tenant*> movers;
  // A GPU may have idle time although its whole capacity is guaranteed to its tenants. Other tenants may use this time
  // if they can leave again.
  const auto lodges = [&](const Tenant& tenant) {
    return only_borrowers && !(node_.FitsPlan(tenant, quiet) && node_.RequestsFit(tenant, {quiet}));
  };
  for (auto& [id, tenant] : node_.tenants()) {
    if (tenant.state != State::kHere || !Occupies(tenant, crowded)) continue;
    busy += tenant.is_active ? 1 : 0;
    can_gain |= tenant.is_active && (tenant.share.memory_limit > tenant.share.memory_request ||
                                     tenant.share.compute_limit > tenant.share.compute_request);
    const bool can = tenant.devices.size() == 1 && node_.WhyStays(tenant).empty() &&
                     (only_borrowers ? tenant.time_used > tenant.share.compute_request
                                     : tenant.devices[0].ceiling <= node_.Free(quiet));
    if (can && (!lodges(tenant) || node_.WhyKeepsGpu(tenant).empty())) movers.push_back(&tenant);
  }
  if (busy < 2 || !can_gain) return false;
  const auto rank = [&](const Tenant* tenant) {
    return std::tuple(tenant->devices[0].planned_gpu != quiet, tenant->devices[0].used.count(), tenant->id);
  };
  std::sort(movers.begin(), movers.end(), [&](const Tenant* a, const Tenant* b) { return rank(a) < rank(b); });
  for (Tenant* tenant : movers) {
    if (!node_.HasStayed(*tenant))
      actions_.DecideAgainBy(AddSaturating(tenant->last_move, node_.settings().least_stay));
    else if (tenant->is_active && mover_.StartMove(*tenant, {quiet}, lodges(*tenant)) != Room::kNone) return true;
  }
  return false;
}

}  // namespace divvy::sharing
