#include "sharing/planner/packing.h"

#include <algorithm>

namespace divvy::sharing {
namespace {

constexpr Duration kBusy = 500ms;       // Extra cost of interrupting a busy tenant instead of an idle one.
constexpr Duration kMovedLately = 60s;  // A tenant moved within this time is moved again only if others cost more.

}  // namespace

std::size_t NodePacking::NumberOf(TenantId id) const {
  return static_cast<std::size_t>(std::find(tenants.begin(), tenants.end(), id) - tenants.begin());
}

int NodePacking::NumberOfGpu(GpuIndex gpu) const {
  return static_cast<int>(std::find(gpus.begin(), gpus.end(), gpu) - gpus.begin());
}

std::vector<GpuIndex> NodePacking::GpusOf(const std::vector<int>& numbers) const {
  std::vector<GpuIndex> out;
  for (const int number : numbers) out.push_back(gpus[static_cast<std::size_t>(number)]);
  return out;
}

NodePacking PackingOf(const NodeOccupancy& node, GpuSet leaving, const Tenant* seeker) {
  NodePacking packing;
  for (const auto& [index, gpu] : node.gpus()) {
    packing.gpus.push_back(index);
    packing.problem.gpus.push_back({gpu.capacity, GpuShare::kWhole, std::max<std::int64_t>(gpu.bytes_per_second, 1)});
  }
  for (const auto& [id, tenant] : node.tenants()) {
    const bool is_off =
        tenant.state == State::kParked || tenant.state == State::kArriving || tenant.state == State::kParking;
    if (is_off && &tenant != seeker) continue;
    PackTenant packed;
    packed.request = tenant.share.memory_request;
    packed.compute = tenant.share.compute_request.ten_thousandths();
    packed.can_move = &tenant == seeker || (tenant.state == State::kHere && node.WhyStays(tenant).empty());
    packed.penalty = kControlState + (node.IsIdle(tenant) ? Duration(0) : kBusy) +
                     (tenant.state == State::kHere && !node.HasStayed(tenant) ? kMovedLately : Duration(0));
    packed.factor = node.IsIdle(tenant) ? 1 : 2;
    for (const Device& device : tenant.devices) {
      packed.planned_gpus.push_back(packing.NumberOfGpu(device.planned_gpu));
      packed.liked.push_back(packing.NumberOfGpu(tenant.state == State::kParked ? device.gpu : device.planned_gpu));
      packed.used.push_back(device.used);
      if (&tenant != seeker) packed.at.push_back(packing.NumberOfGpu(device.target.value_or(device.gpu)));
      packed.must_leave |= tenant.state == State::kHere && leaving.Contains(device.gpu);
    }
    // An immovable tenant starts on its planned GPUs, and after parking returns to the GPUs that it had.
    const bool is_whole = tenant.share.is_whole;
    const bool is_bound = is_whole || (&tenant == seeker && !tenant.why_cannot_move.empty());
    if (is_whole) packed.liked = packed.planned_gpus;
    for (const auto& [index, gpu] : node.gpus()) {
      // A GPU that takes no tenants with fractions may still take a tenant with whole GPUs.
      const bool is_open = node.IsOpen(index) || (is_whole && gpu.why_unusable.empty() && gpu.whole_job == 0);
      if (!is_open || gpu.kind != node.gpus().at(tenant.devices.front().gpu).kind) continue;
      const int number = packing.NumberOfGpu(index);
      const auto& bound = tenant.state == State::kParked ? packed.liked : packed.planned_gpus;
      if (is_bound && std::count(bound.begin(), bound.end(), number) == 0) continue;
      packed.allowed |= std::uint64_t{1} << number;
    }
    packing.tenants.push_back(id);
    packing.problem.tenants.push_back(std::move(packed));
  }
  return packing;
}

}  // namespace divvy::sharing
