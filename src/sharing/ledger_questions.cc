// Queries about the ledger's state, used by callers and by the ledger itself.
#include "sharing/holds.h"
#include "sharing/ledger.h"
#include "sharing/words.h"

namespace divvy::sharing {

const Tenant* SharePlanner::Find(TenantId id) const {
  const auto at = tenants_.find(id);
  return at == tenants_.end() ? nullptr : &at->second;
}

Bytes SharePlanner::Borrowed(const Tenant& tenant, unsigned device) {
  if (tenant.state == State::kParked || tenant.state == State::kArriving) return {};
  return std::max(tenant.devices[device].used - tenant.share.memory_request, Bytes(0));
}

SharePlanner::Load SharePlanner::LoadOf(GpuIndex gpu, const Tenant* except) const {
  Load load;
  for (const auto& [id, tenant] : tenants_) {
    if (&tenant == except) continue;
    ForEachHold(tenant, [&](unsigned device, GpuIndex held) {
      if (held != gpu) return;
      load.ceilings += tenant.devices[device].ceiling;
      load.requests += tenant.share.memory_request;
      load.compute += tenant.share.compute_request.ten_thousandths();
      ++load.tenants;
    });
  }
  return load;
}

Bytes SharePlanner::Free(GpuIndex gpu) const { return gpus_.at(gpu).capacity - LoadOf(gpu).ceilings; }

bool SharePlanner::IsOpen(GpuIndex gpu) const {
  const Gpu& at = gpus_.at(gpu);
  return at.why_unusable.empty() && at.why_withheld.empty() && at.whole_job == 0;
}

bool SharePlanner::IsIdle(const Tenant& tenant) const {
  return !tenant.is_active && now_ - tenant.last_active >= settings_.idle_after;
}

bool SharePlanner::IsBorrower(const Tenant& tenant, GpuIndex gpu) const {
  for (unsigned device = 0; device < tenant.devices.size(); ++device) {
    if (tenant.devices[device].gpu == gpu && Borrowed(tenant, device) > Bytes(0)) return tenant.state == State::kHere;
  }
  return false;
}

bool SharePlanner::HasStayed(const Tenant& tenant) const {
  return tenant.last_move == kNoTime || now_ - tenant.last_move >= settings_.least_stay;
}

std::string SharePlanner::WhyStays(const Tenant& tenant) const {
  if (tenant.is_lost) return "it was damaged";
  if (!tenant.why_cannot_move.empty()) return tenant.why_cannot_move;
  for (const Device& device : tenant.devices) {
    const Gpu& gpu = gpus_.at(device.gpu);
    if (!gpu.why_unusable.empty()) return "GPU " + std::to_string(device.gpu) + " " + gpu.why_unusable;
  }
  const auto refusal = refusals_.find(tenant.id);
  return refusal == refusals_.end() ? "" : refusal->second.why;
}

std::string SharePlanner::WhyKeepsGpu(const Tenant& tenant) const {
  if (tenant.is_lost) return "it was damaged";
  if (!tenant.why_cannot_park.empty()) return tenant.why_cannot_park;
  const auto refusal = refusals_.find(tenant.id);
  return refusal == refusals_.end() ? "" : refusal->second.why;
}

bool SharePlanner::RequestsFit(const Tenant& tenant, const std::vector<GpuIndex>& to) const {
  for (const GpuIndex gpu : to) {
    const Load others = LoadOf(gpu, &tenant);
    if (others.requests + tenant.share.memory_request > gpus_.at(gpu).capacity) return false;
    if (others.compute + tenant.share.compute_request.ten_thousandths() > GpuShare::kWhole) return false;
  }
  return true;
}

std::string SharePlanner::WhyWaits(TenantId id) const {
  const auto at = waits_.find(id);
  return at == waits_.end() ? "" : at->second;
}

std::string SharePlanner::CheckInvariants() const {
  for (const auto& [id, tenant] : tenants_) {
    GpuSet held;
    for (const Device& device : tenant.devices) {
      const GpuIndex gpu = device.target.value_or(device.gpu);
      if (tenant.state != State::kArriving && held.Contains(gpu)) {
        return TenantText(id) + " has two devices on GPU " + std::to_string(gpu);
      }
      held.Insert(gpu);
      if (tenant.state == State::kHere && device.used > device.ceiling)
        return TenantText(id) + " uses more than its ceiling";
      if (tenant.state == State::kParked && device.ceiling != Bytes(0))
        return TenantText(id) + " has a ceiling while parked";
      const bool is_brought = tenant.state == State::kMoving || tenant.state == State::kWaking;
      if (device.target.has_value() != is_brought) return TenantText(id) + " has a target that its state does not know";
    }
    const auto is_of_it = [&](const auto& entry) {
      const Deed& deed = entry.second.deed;
      if (const auto* move = std::get_if<Move>(&deed)) return move->tenant == id;
      if (const auto* park = std::get_if<Park>(&deed)) return park->tenant == id;
      if (const auto* wake = std::get_if<Wake>(&deed)) return wake->tenant == id;
      return false;
    };
    const auto orders = std::count_if(in_flight_.begin(), in_flight_.end(), is_of_it);
    if (orders != (IsInFlight(id) ? 1 : 0)) return TenantText(id) + " is under way without an order, or has two";
  }
  for (const auto& [index, gpu] : gpus_) {
    Bytes used;
    for (const auto& [id, tenant] : tenants_) {
      ForEachHold(tenant, [&, &counted = tenant](unsigned device, GpuIndex held) {
        if (held == index) used += std::max(counted.devices[device].used, Bytes(0));
      });
    }
    // Residuals come without a request, so use alone can exceed a GPU. Ceilings beyond use never do.
    const Bytes ceilings = LoadOf(index).ceilings;
    if (ceilings > gpu.capacity && ceilings > used && !pushed_over_.contains(index)) {
      return "the ceilings on GPU " + std::to_string(index) + " are " + BytesText(ceilings) + " of " +
             BytesText(gpu.capacity);
    }
    if (gpu.is_ready && LoadOf(index).tenants > 0)
      return "a whole job was given GPU " + std::to_string(index) + ", which has tenants";
  }
  return "";
}

}  // namespace divvy::sharing
