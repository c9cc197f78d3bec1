#include "keeper/tenant_use.h"

#include <algorithm>
#include <utility>

namespace divvy::keeper {
namespace {

/// Upper bound for what the driver adds to a process's allocations, such as contexts and code. A process above it has
/// allocated memory without the library.
constexpr std::uint64_t kMostResidual = std::uint64_t{2} << 30;

/// Added to the largest measured residual, because a process may load more code.
constexpr std::uint64_t kResidualToSpare = std::uint64_t{16} << 20;

/// By then a tenant's process on its GPU has said hello, or it uses the GPU without the library.
constexpr Duration kSaysHelloWithin = 3s;

/// A sample takes less time, unless the driver is faulty.
constexpr Duration kOldestSight = 3s;

std::uint64_t CountOf(Bytes bytes) { return static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes.count())); }

}  // namespace

void TenantUse::OnSights(const std::vector<GpuSight>& sights) {
  for (auto& [id, kept] : shared_.tenants) kept->escaped.clear();
  for (const GpuSight& sight : sights) OnSight(sight);
  for (auto& [id, kept] : shared_.tenants) {
    BearWithNewcomers(*kept);
    ExpectResiduals(*kept);
    SetCannot(*kept);
    RefreshUse(*kept);
  }
  shared_.is_planner_due = true;
}

void TenantUse::ExpectResiduals(const ManagedTenant& kept) const {
  if (kept.tenant == nullptr) return;
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device) {
    const auto known =
        expected_residual_.find({kept.record.terms.uid, static_cast<GpuIndex>(kept.tenant->devices()[device].gpu)});
    kept.tenant->ExpectResidual(device,
                                known == expected_residual_.end() ? shared_.options.first_residual : known->second);
  }
}

// A process that has just started, or whose keeper has restarted, will connect soon, so it is not reported as bypassing
// the sharing yet.
void TenantUse::BearWithNewcomers(ManagedTenant& kept) const {
  const auto before = std::exchange(kept.strangers, {});
  for (const std::int64_t pid : kept.escaped) {
    const auto known = before.find(pid);
    kept.strangers.emplace(pid, known == before.end() ? shared_.loop.Now() : known->second);
  }
  std::erase_if(kept.escaped,
                [&](std::int64_t pid) { return shared_.loop.Now() - kept.strangers.at(pid) < kSaysHelloWithin; });
}

// Returns true if the process belongs to this tenant. For one that has not connected, its ancestors or its environment
// tell.
bool TenantUse::IsOf(const GpuSight::Process& seen, const ManagedTenant& kept) const {
  const Tenant& tenant = *kept.tenant;
  const auto known = processes_.find(seen.pid);
  if (known != processes_.end() && known->second.start_ticks == seen.start_ticks)
    return tenant.id() == TenantId{known->second.job.value(), known->second.attempt};
  const bool is_below = std::any_of(seen.ancestors.begin(), seen.ancestors.end(), [&tenant](std::int64_t pid) {
    return std::any_of(tenant.processes().begin(), tenant.processes().end(),
                       [pid](const auto& one) { return one.second.pid == pid; });
  });
  // Any user can name a folder. It counts only for processes of the tenant's own user.
  return is_below || (seen.folder == tenant.folder() && seen.uid == kept.record.terms.uid);
}

void TenantUse::OnSight(const GpuSight& sight) {
  utilisation_[sight.gpu] = sight.utilisation_percent;
  for (const GpuSight::Process& seen : sight.processes) {
    for (auto& [id, kept] : shared_.tenants) {
      if (kept->tenant == nullptr || kept->record.terms.uses_mps) continue;
      Tenant& tenant = *kept->tenant;
      const auto slot = std::find_if(tenant.processes().begin(), tenant.processes().end(),
                                     [&seen](const auto& one) { return one.second.pid == seen.pid; });
      if (slot == tenant.processes().end()) {
        if (IsOf(seen, *kept)) kept->escaped.insert(seen.pid);
        continue;
      }
      // A sample of GPU processes may have been taken before the tenant moved, so none is used shortly after a move.
      const bool is_settled = shared_.loop.Now() - kept->relocated > kOldestSight;
      if (kept->is_away() || !is_settled) continue;
      const bool is_its_own = std::any_of(tenant.devices().begin(), tenant.devices().end(),
                                          [&sight](const TenantDevice& device) { return device.gpu == sight.gpu; });
      if (!is_its_own) kept->escaped.insert(seen.pid);
      for (unsigned device = 0; device < tenant.devices().size(); ++device) {
        if (tenant.devices()[device].gpu != sight.gpu) continue;
        const std::uint64_t residual = tenant.SeeMemory(slot->first, device, CountOf(seen.memory));
        if (residual > kMostResidual) kept->escaped.insert(seen.pid);
        if (residual == 0 || residual > kMostResidual) continue;
        // Uses the largest: an overestimate is corrected for each process after two samples.
        std::uint64_t& expected = expected_residual_[{kept->record.terms.uid, sight.gpu}];
        expected = std::max(expected, residual + kResidualToSpare);
      }
    }
  }
}

void TenantUse::SetProcesses(const std::vector<wire::KeeperProcess>& processes) {
  processes_.clear();
  for (const wire::KeeperProcess& process : processes) processes_[process.pid] = process;
}

void TenantUse::RefreshUse(ManagedTenant& kept) {
  if (kept.tenant == nullptr || kept.is_away()) return;
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device) {
    Bytes used(static_cast<std::int64_t>(kept.tenant->Used(device)));
    // MPS guarantees this memory to the client, used or not, and it cannot be reclaimed.
    if (kept.record.terms.uses_mps) used = std::max(used, kept.record.terms.share.memory_request);
    const sharing::Tenant* known = shared_.planner.Find(kept.tenant->id());
    if (known == nullptr || known->devices[device].used == used) continue;
    shared_.planner.SetUse(kept.tenant->id(), device, used);
    shared_.is_planner_due = true;
  }
}

void TenantUse::RefreshAll() {
  for (auto& [id, kept] : shared_.tenants) RefreshUse(*kept);
}

void TenantUse::SetCannot(ManagedTenant& kept) {
  if (kept.tenant == nullptr || kept.record.terms.uses_mps || kept.relocation != nullptr) return;
  const std::uint32_t flags = kept.tenant->Flags();
  std::string move = shared_.mechanisms.WhyCannotMove(flags);
  std::string park = shared_.mechanisms.WhyCannotPark(flags);
  if (!kept.escaped.empty())
    move = park = "process " + std::to_string(*kept.escaped.begin()) + " uses the GPU without the sharing library";
  // The tenant cannot be parked: other jobs would get its GPU while this process still has memory there.
  if (kept.record.terms.is_whole && kept.escaped.empty() && !kept.strangers.empty())
    park = "process " + std::to_string(kept.strangers.begin()->first) + " uses the GPU and has not connected yet";
  if (!kept.why_no_room.empty()) {
    if (move.empty()) move = kept.why_no_room;
    if (park.empty()) park = kept.why_no_room;
  }
  if (!kept.tenant->has_page()) move = park = "its shared memory page was overwritten";
  const sharing::Tenant* known = shared_.planner.Find(kept.tenant->id());
  if (known == nullptr || (known->why_cannot_move == move && known->why_cannot_park == park)) return;
  shared_.planner.SetCannot(kept.tenant->id(), move, park);
  shared_.is_planner_due = true;
}

void TenantUse::CheckActivity(ManagedTenant& kept) {
  bool is_active = false;
  for (const auto& [slot, process] : kept.tenant->processes()) {
    const std::uint64_t launches = kept.tenant->Launches(slot);
    std::uint64_t& before = kept.launches[slot];
    is_active = is_active || launches != before || kept.tenant->Waiting(slot) != 0 || kept.tenant->Entered(slot) != 0;
    before = launches;
  }
  // One long kernel is not a new launch. With an open gate the tenant is alone, so the driver's utilisation is its
  // own.
  for (const TenantDevice& device : kept.tenant->devices()) {
    const auto seen = utilisation_.find(static_cast<GpuIndex>(device.gpu));
    is_active = is_active || (device.gate == share::kOpen && seen != utilisation_.end() && seen->second > 0);
  }
  const sharing::Tenant* known = shared_.planner.Find(kept.tenant->id());
  if (known != nullptr && !kept.record.is_parked && (is_active || known->is_active)) {
    shared_.planner.SetActivity(known->id, is_active, shared_.loop.Now());
    shared_.is_planner_due = true;
  }
}

/// Returns the share of the device's time since the last sample. `turns`: the length of its turns in that period.
/// Holding a turn is not work: a tenant that was idle throughout gets 0. While a gate is open there are no turns to
/// measure, and its tenant is the only active one, so it gets the driver's utilisation.
GpuShare TenantUse::ShareOfTime(const ManagedTenant& kept, unsigned device, Duration turns, Duration since) const {
  const sharing::Tenant* known = shared_.planner.Find(kept.tenant->id());
  const bool was_idle = known != nullptr && !known->is_active && shared_.loop.Now() - known->last_active >= since;
  const TenantDevice& place = kept.tenant->devices()[device];
  if (was_idle && !shared_.gates.Overruns(*kept.tenant, device)) return GpuShare();
  const auto seen = utilisation_.find(static_cast<GpuIndex>(place.gpu));
  const bool is_seen = place.gate == share::kOpen && seen != utilisation_.end() && seen->second >= 0;
  const std::int64_t parts =
      is_seen ? std::int64_t{GpuShare::kWhole} * seen->second / 100 : turns.count() * GpuShare::kWhole / since.count();
  return GpuShare(static_cast<std::int32_t>(std::min<std::int64_t>(parts, GpuShare::kWhole)));
}

bool TenantUse::SampleShares() {
  const Time now = shared_.loop.Now();
  if (now - sampled_at_ < 1s) return false;
  const Duration since = sampled_at_ == kNoTime ? Duration(0) : now - sampled_at_;
  sampled_at_ = now;
  for (auto& [id, kept] : shared_.tenants) {
    if (kept->tenant == nullptr) continue;
    for (unsigned device = 0; device < kept->had.size(); ++device) {
      const Duration had = shared_.gates.Had(*kept->tenant, device);
      const Duration more = had > kept->had[device] ? had - kept->had[device] : Duration(0);
      kept->had[device] = had;
      if (since <= Duration(0)) continue;
      kept->had_share[device] = ShareOfTime(*kept, device, more, since);
    }
    if (since > Duration(0) && !kept->had_share.empty())
      shared_.planner.SetTimeUsed(id, *std::ranges::max_element(kept->had_share));
  }
  return true;
}

}  // namespace divvy::keeper
