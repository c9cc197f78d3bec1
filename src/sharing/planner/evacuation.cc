#include "sharing/planner/evacuation.h"

#include <algorithm>

#include "sharing/occupied_gpus.h"
#include "sharing/words.h"

namespace divvy::sharing {

void Evacuation::ReportUnusable() {
  for (const auto& [id, tenant] : node_.tenants()) {
    ForEachOccupied(tenant, [&](unsigned, GpuIndex gpu) {
      if (const std::string& why = node_.gpus().at(gpu).why_unusable; !why.empty()) {
        actions_.FailForGpu(id, "is on GPU " + std::to_string(gpu) + ", which " + why);
      }
    });
  }
}

void Evacuation::EmptyWholes() {
  for (const auto& [job, gpus] : node_.wholes()) EmptyWhole(job, gpus);
}

void Evacuation::EmptyWhole(std::uint64_t job, GpuSet gpus) {
  bool is_empty = true;
  bool is_ready = true;
  for (const auto& [index, gpu] : node_.gpus()) {
    if (gpu.whole_job != job) continue;
    is_empty &= node_.LoadOf(index).tenants == 0;
    is_ready &= gpu.is_ready;
  }
  if (is_ready) return;
  if (is_empty) {
    for (auto& [index, gpu] : node_.gpus()) gpu.is_ready |= gpu.whole_job == job;
    actions_.ForgetJobFailure(job);
    return actions_.Send(Ready{job});
  }
  const NodePacking packing = PackingOf(node_, gpus, nullptr);
  const std::optional<PackPlan> plan = Repack(packing.problem);
  const bool is_under_way = plan ? mover_.CarryOut(packing, plan->to, gpus) : node_.IsAnyInFlight();
  if (is_under_way) actions_.ForgetJobFailure(job);
  else actions_.FailJob(job, WhoBlocks(gpus));
}

// Moves the tenants away one by one, so that a tenant that cannot leave does not keep the others on the GPU.
void Evacuation::EmptyWithheld() {
  for (auto& [id, tenant] : node_.tenants()) {
    if (tenant.state != State::kHere || tenant.share.is_whole) continue;
    for (const Device& device : tenant.devices) {
      const Gpu& gpu = node_.gpus().at(device.gpu);
      // AcquireExclusive has already emptied this GPU or reported why that failed.
      if (gpu.why_withheld.empty() || gpu.whole_job != 0) continue;
      const std::string why = node_.WhyStays(tenant);
      if (why.empty() && LeaveWithheld(tenant)) break;
      actions_.FailForGpu(id, "is on GPU " + std::to_string(device.gpu) + ", which " + gpu.why_withheld +
                                  ", and cannot leave it: " + (why.empty() ? "no other GPU has room for it" : why));
      break;
    }
  }
}

/// Returns true if the tenant is leaving, or if others move to make room for it.
bool Evacuation::LeaveWithheld(Tenant& tenant) {
  NodePacking packing = PackingOf(node_, {}, nullptr);
  const auto at = std::ranges::find(packing.tenants, tenant.id);
  if (at == packing.tenants.end()) return false;
  packing.problem.tenants[static_cast<std::size_t>(at - packing.tenants.begin())].must_leave = true;
  const std::optional<PackPlan> plan = Repack(packing.problem);
  if (!plan) return false;
  GpuSet leaving;
  for (const Device& device : tenant.devices) {
    if (!node_.gpus().at(device.gpu).why_withheld.empty()) leaving.Insert(device.gpu);
  }
  return mover_.CarryOut(packing, plan->to, leaving);
}

/// Returns which tenants cannot leave these GPUs. If there are none: which tenants cannot leave GPUs where others
/// belong.
std::string Evacuation::WhoBlocks(GpuSet gpus) const {
  std::string there;
  std::string elsewhere;
  for (const auto& [id, tenant] : node_.tenants()) {
    const std::string why = node_.WhyStays(tenant);
    if (why.empty()) continue;
    ForEachOccupied(tenant, [&, &at = tenant](unsigned device, GpuIndex gpu) {
      std::string& text = gpus.Contains(gpu) ? there : elsewhere;
      if (!gpus.Contains(gpu) && gpu == at.devices[device].planned_gpu) return;
      text += (text.empty() ? "" : "; ") + TenantText(at.id) + " stays on GPU " + std::to_string(gpu) + ": " + why;
    });
  }
  if (!there.empty()) return there;
  if (elsewhere.empty()) elsewhere = "no other GPUs have room for the tenants there";
  // Adds to the text why other GPUs, to which the tenants could have moved, cannot take them.
  for (const auto& [index, gpu] : node_.gpus()) {
    const std::string& why = gpu.why_unusable.empty() ? gpu.why_withheld : gpu.why_unusable;
    if (!gpus.Contains(index) && !why.empty()) elsewhere += "; GPU " + std::to_string(index) + " " + why;
  }
  return elsewhere;
}

void Evacuation::Uncrowd() {
  for (const auto& [index, gpu] : node_.gpus()) {
    const GpuLoad load = node_.LoadOf(index);
    if (load.requests <= gpu.capacity && load.compute <= GpuShare::kWhole) continue;
    const NodePacking packing = PackingOf(node_, {}, nullptr);
    if (const std::optional<PackPlan> plan = Repack(packing.problem)) mover_.CarryOut(packing, plan->to, {});
    return;
  }
}

Duration RepackBound(const NodeOccupancy& node, GpuSet gpus) {
  NodeOccupancy tried = node;
  tried.AcquireExclusive(~std::uint64_t{0}, gpus);
  NodePacking packing = PackingOf(tried, gpus, nullptr);
  // Computes the duration of the plan that will be carried out, which is the one with the lowest cost to tenants.
  const std::optional<PackPlan> plan = Repack(packing.problem);
  if (!plan) return Duration::max();
  for (PackTenant& tenant : packing.problem.tenants) {
    tenant.factor = 1;
    tenant.penalty = kControlState;
  }
  Duration bound = node.settings().slack;
  // Tenants that are already in flight, on any GPU, are awaited first.
  for (const auto& [id, tenant] : node.tenants()) {
    if (!IsInFlight(tenant)) continue;
    bound += kControlState;
    for (const Device& device : tenant.devices) {
      const double seconds =
          2 * static_cast<double>(device.used.count()) /
          static_cast<double>(std::max<std::int64_t>(node.gpus().at(device.gpu).bytes_per_second, 1));
      bound += Duration(static_cast<std::int64_t>(seconds * 1e9));
    }
  }
  for (std::size_t i = 0; i < plan->to.size(); ++i) bound += MoveCost(packing.problem, i, plan->to[i]);
  return bound;
}

}  // namespace divvy::sharing
