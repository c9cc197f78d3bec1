#include "sharing/planner/node_occupancy.h"

#include <algorithm>

#include "base/text.h"
#include "sharing/occupied_gpus.h"
#include "sharing/words.h"

namespace divvy::sharing {
namespace {

/// A job with whole GPUs may use all of them, also the part that tenants share with the driver. Nothing else is there.
Bytes Counted(const Tenant& tenant, Bytes used) {
  return tenant.share.is_whole ? std::min(used, tenant.share.memory_request) : used;
}

}  // namespace

void NodeOccupancy::SetGpu(const Gpu& gpu) {
  const auto [at, is_new] = gpus_.emplace(gpu.index, gpu);
  if (is_new) {
    at->second.whole_job = 0;
    at->second.is_ready = false;
    return;
  }
  at->second.kind = gpu.kind;
  at->second.capacity = gpu.capacity;
  at->second.bytes_per_second = gpu.bytes_per_second;
  at->second.why_unusable = gpu.why_unusable;
  at->second.why_withheld = gpu.why_withheld;
  NoteExcess(gpu.index);
}

void NodeOccupancy::NoteExcess(GpuIndex gpu) {
  if (Free(gpu) < Bytes(0)) pushed_over_.insert(gpu);
}

void NodeOccupancy::AcquireExclusive(std::uint64_t job, GpuSet gpus) {
  ReleaseExclusive(job);
  wholes_[job] = gpus;
  for (auto& [index, gpu] : gpus_) {
    if (!gpus.Contains(index)) continue;
    gpu.whole_job = job;
    gpu.is_ready = false;
  }
}

void NodeOccupancy::ReleaseExclusive(std::uint64_t job) {
  wholes_.erase(job);
  for (auto& [index, gpu] : gpus_) {
    if (gpu.whole_job != job) continue;
    gpu.whole_job = 0;
    gpu.is_ready = false;
    left_at_[index] = kNoTime;
  }
}

Status NodeOccupancy::CheckShare(const Tenant& tenant) const {
  const Share& share = tenant.share;
  const std::string name = TenantText(tenant.id);
  if (share.memory_request <= Bytes(0) || share.memory_request > share.memory_limit) {
    return InvalidArgument(name + ": the memory request must be above 0 and at most the memory limit");
  }
  const bool is_time_right = share.compute_request > GpuShare(0) && share.compute_request <= share.compute_limit &&
                             share.compute_limit <= GpuShare(GpuShare::kWhole);
  if (!is_time_right)
    return InvalidArgument(name + ": the time request must be above 0 and at most the time limit, which is at most 1");
  if (tenant.devices.empty()) return InvalidArgument(name + ": a tenant needs at least one GPU");
  GpuSet planned_gpus;
  for (const Device& device : tenant.devices) {
    if (!gpus_.contains(device.planned_gpu))
      return NotFound(name + ": there is no GPU " + std::to_string(device.planned_gpu));
    if (planned_gpus.Contains(device.planned_gpu)) {
      return InvalidArgument(name + ": GPU " + std::to_string(device.planned_gpu) + " is named twice");
    }
    planned_gpus.Insert(device.planned_gpu);
  }
  for (const int gpu : planned_gpus.ToVector()) {
    const GpuLoad planned = PlannedLoad(tenant, static_cast<GpuIndex>(gpu));
    const Bytes capacity = gpus_.at(static_cast<GpuIndex>(gpu)).capacity;
    if (planned.requests > capacity) {
      return LimitExceeded(name + ": the requests on GPU " + std::to_string(gpu) + " would be " +
                           BytesText(planned.requests) + " of " + BytesText(capacity));
    }
    if (planned.compute > GpuShare::kWhole) {
      return LimitExceeded(name + ": the requests for GPU " + std::to_string(gpu) +
                           "'s time would exceed the whole GPU");
    }
  }
  return {};
}

Status NodeOccupancy::AddTenant(const Tenant& tenant) {
  if (tenants_.contains(tenant.id)) return Error{ErrorCode::kAlreadyExists, TenantText(tenant.id) + " already exists"};
  DIVVY_CHECK(CheckShare(tenant));
  Tenant& added = tenants_[tenant.id] = tenant;
  added.state = State::kArriving;
  added.parked_by = ParkedBy::kNobody;
  added.wants_to_wake = false;
  added.is_lost = false;
  added.is_displaced = false;
  for (Device& device : added.devices) {
    device = Device{.planned_gpu = device.planned_gpu,
                    .gpu = device.planned_gpu,
                    .target = std::nullopt,
                    .used = {},
                    .ceiling = {}};
  }
  return {};
}

Status NodeOccupancy::LoadTenant(const Tenant& tenant) {
  const std::string name = TenantText(tenant.id);
  if (tenants_.contains(tenant.id)) return Error{ErrorCode::kAlreadyExists, name + " already exists"};
  if (tenant.devices.empty()) return InvalidArgument(name + ": a tenant needs at least one GPU");
  for (const Device& device : tenant.devices) {
    if (!gpus_.contains(device.planned_gpu) || !gpus_.contains(device.gpu)) {
      return NotFound(name + ": there is no GPU " +
                      std::to_string(gpus_.contains(device.planned_gpu) ? device.gpu : device.planned_gpu));
    }
  }
  const bool is_settled =
      tenant.state == State::kHere || tenant.state == State::kParked || tenant.state == State::kArriving;
  if (!is_settled) return InvalidArgument(name + ": a tenant is loaded as running, parked or arriving");
  Tenant& loaded = tenants_[tenant.id] = tenant;
  if (loaded.state != State::kParked) loaded.parked_by = ParkedBy::kNobody;
  for (Device& device : loaded.devices) {
    device.target.reset();
    device.used = Counted(loaded, device.used);
    if (loaded.state != State::kHere) device.ceiling = {};
    else device.ceiling = std::max(device.ceiling, device.used);
    NoteExcess(device.gpu);
  }
  return {};
}

void NodeOccupancy::RemoveTenant(TenantId id) {
  tenants_.erase(id);
  refusals_.erase(id);
}

// Sets the planned GPUs. A device that is on one of them keeps it; the other devices get the rest in order.
Status NodeOccupancy::TakePlannedGpus(GpuSet planned_gpus, Tenant& tenant) {
  if (static_cast<std::size_t>(planned_gpus.size()) != tenant.devices.size())
    return InvalidArgument(TenantText(tenant.id) + " has fractions of " + std::to_string(tenant.devices.size()) +
                           " GPUs, but its new plan names " + std::to_string(planned_gpus.size()));
  GpuSet left = planned_gpus;
  for (Device& device : tenant.devices) {
    if (!planned_gpus.Contains(device.gpu)) continue;
    device.planned_gpu = device.gpu;
    left.Erase(device.gpu);
  }
  for (Device& device : tenant.devices) {
    if (planned_gpus.Contains(device.gpu)) continue;
    device.planned_gpu = static_cast<GpuIndex>(left.ToVector().front());
    left.Erase(device.planned_gpu);
  }
  return {};
}

Status NodeOccupancy::Resize(TenantId id, const Share& share, std::optional<GpuSet> planned_gpus) {
  DIVVY_TRY(Tenant * tenant, Lookup(id));
  Tenant changed = *tenant;
  changed.share = share;
  if (planned_gpus) DIVVY_CHECK(TakePlannedGpus(*planned_gpus, changed));
  DIVVY_CHECK(CheckShare(changed));
  tenant->share = share;
  tenant->devices = std::move(changed.devices);
  return {};
}

bool NodeOccupancy::SetUse(TenantId id, unsigned device, Bytes used_and_residual) {
  Tenant* tenant = Find(id);
  if (tenant == nullptr || device >= tenant->devices.size()) return false;
  // While the tenant is parked, the last count is the memory that it needs to wake. During a move or park, the count
  // only rises until the gate is closed.
  const State state = tenant->state;
  if (state != State::kHere && state != State::kMoving && state != State::kParking) return false;
  Device& here = tenant->devices[device];
  here.used = std::max(Counted(*tenant, used_and_residual), state == State::kHere ? Bytes(0) : here.used);
  // Memory that the driver itself uses for a process (the residual) grows without a request, so the ceiling is raised
  // to it. A tenant that is being parked needs no more than it had.
  if (state != State::kParking) here.ceiling = std::max(here.ceiling, here.used);
  NoteExcess(here.gpu);
  return true;
}

void NodeOccupancy::SetActivity(TenantId id, bool is_active, Time now) {
  Tenant* tenant = Find(id);
  if (tenant == nullptr) return;
  tenant->is_active = is_active;
  if (is_active) tenant->last_active = now;
}

void NodeOccupancy::SetTimeUsed(TenantId id, GpuShare in_last_second) {
  Tenant* tenant = Find(id);
  if (tenant == nullptr) return;
  constexpr std::int32_t kSeconds = 4;  // The time constant of the mean.
  tenant->time_used =
      GpuShare((tenant->time_used.ten_thousandths() * (kSeconds - 1) + in_last_second.ten_thousandths()) / kSeconds);
}

void NodeOccupancy::SetCannot(TenantId id, std::string why_cannot_move, std::string why_cannot_park) {
  Tenant* tenant = Find(id);
  if (tenant == nullptr) return;
  tenant->why_cannot_move = std::move(why_cannot_move);
  tenant->why_cannot_park = std::move(why_cannot_park);
}

void NodeOccupancy::WantWake(TenantId id) {
  Tenant* tenant = Find(id);
  if (tenant == nullptr) return;
  const bool is_off = tenant->state == State::kParked || tenant->state == State::kParking;
  if (is_off && !tenant->is_displaced) tenant->wants_to_wake = true;
}

void NodeOccupancy::BeginDecision(Time now) {
  now_ = now;
  std::erase_if(refusals_, [&](const auto& entry) { return entry.second.until <= now; });
  std::erase_if(pushed_over_, [&](GpuIndex gpu) { return Free(gpu) >= Bytes(0); });
  for (auto& [id, tenant] : tenants_) {
    if (tenant.last_active == kNoTime) tenant.last_active = now;
  }
  for (auto& [gpu, left_at] : left_at_) {
    if (left_at == kNoTime) left_at = now;
  }
}

const Tenant* NodeOccupancy::Find(TenantId id) const {
  const auto at = tenants_.find(id);
  return at == tenants_.end() ? nullptr : &at->second;
}

Tenant* NodeOccupancy::Find(TenantId id) {
  const auto at = tenants_.find(id);
  return at == tenants_.end() ? nullptr : &at->second;
}

Result<Tenant*> NodeOccupancy::Lookup(TenantId id) {
  if (Tenant* tenant = Find(id)) return tenant;
  return NotFound(TenantText(id) + " has no GPU fraction on this node");
}

GpuLoad NodeOccupancy::LoadOf(GpuIndex gpu, const Tenant* except) const {
  GpuLoad load;
  for (const auto& [id, tenant] : tenants_) {
    if (&tenant == except) continue;
    ForEachOccupied(tenant, [&](unsigned device, GpuIndex held) {
      if (held != gpu) return;
      load.ceilings += tenant.devices[device].ceiling;
      ++load.tenants;
      if (tenant.lodges_on == gpu) return;
      load.requests += tenant.share.memory_request;
      load.compute += tenant.share.compute_request.ten_thousandths();
    });
  }
  return load;
}

Bytes NodeOccupancy::Free(GpuIndex gpu) const { return gpus_.at(gpu).capacity - LoadOf(gpu).ceilings; }

GpuShare NodeOccupancy::TimeUsedOn(GpuIndex gpu) const {
  GpuShare sum;
  for (const auto& [id, tenant] : tenants_) {
    if (Occupies(tenant, gpu)) sum = sum + tenant.time_used;
  }
  return sum;
}

bool NodeOccupancy::IsOpen(GpuIndex gpu) const {
  const Gpu& at = gpus_.at(gpu);
  return at.why_unusable.empty() && at.why_withheld.empty() && at.whole_job == 0;
}

bool NodeOccupancy::IsIdle(const Tenant& tenant) const {
  return !tenant.is_active && now_ - tenant.last_active >= settings_.idle_after;
}

bool NodeOccupancy::HasStayed(const Tenant& tenant) const {
  return tenant.last_move == kNoTime || now_ - tenant.last_move >= settings_.least_stay;
}

std::string NodeOccupancy::WhyStays(const Tenant& tenant) const {
  if (tenant.is_lost) return "it was damaged";
  if (tenant.share.is_whole) return "it has the whole GPU";
  if (!tenant.why_cannot_move.empty()) return tenant.why_cannot_move;
  for (const Device& device : tenant.devices) {
    const Gpu& gpu = gpus_.at(device.gpu);
    if (!gpu.why_unusable.empty()) return "GPU " + std::to_string(device.gpu) + " " + gpu.why_unusable;
  }
  return WhyRefused(tenant.id);
}

std::string NodeOccupancy::WhyKeepsGpu(const Tenant& tenant) const {
  if (tenant.is_lost) return "it was damaged";
  if (!tenant.why_cannot_park.empty()) return tenant.why_cannot_park;
  return WhyRefused(tenant.id);
}

std::string NodeOccupancy::WhyRefused(TenantId id) const {
  const auto refusal = refusals_.find(id);
  return refusal == refusals_.end() ? "" : refusal->second.why;
}

Time NodeOccupancy::NextRefusalEnd() const {
  Time next = kNever;
  for (const auto& [id, refusal] : refusals_) next = std::min(next, refusal.until);
  return next;
}

bool NodeOccupancy::RequestsFit(const Tenant& tenant, const std::vector<GpuIndex>& to) const {
  for (const GpuIndex gpu : to) {
    const GpuLoad others = LoadOf(gpu, &tenant);
    if (others.requests + tenant.share.memory_request > gpus_.at(gpu).capacity) return false;
    if (others.compute + tenant.share.compute_request.ten_thousandths() > GpuShare::kWhole) return false;
  }
  return true;
}

GpuLoad NodeOccupancy::PlannedLoad(const Tenant& tenant, GpuIndex gpu) const {
  GpuLoad load{.requests = tenant.share.memory_request, .compute = tenant.share.compute_request.ten_thousandths()};
  for (const auto& [id, other] : tenants_) {
    const bool is_planned = std::ranges::count(other.devices, gpu, &Device::planned_gpu) > 0;
    if (id == tenant.id || other.is_displaced || !is_planned) continue;
    load.requests += other.share.memory_request;
    load.compute += other.share.compute_request.ten_thousandths();
  }
  return load;
}

bool NodeOccupancy::FitsPlan(const Tenant& tenant, GpuIndex gpu) const {
  const GpuLoad planned = PlannedLoad(tenant, gpu);
  return planned.requests <= gpus_.at(gpu).capacity && planned.compute <= GpuShare::kWhole;
}

Status NodeOccupancy::CheckTargets(const Tenant& tenant, const std::vector<GpuIndex>& to) const {
  if (to.size() != tenant.devices.size()) {
    return InvalidArgument(TenantText(tenant.id) + " has " +
                           Plural(static_cast<std::int64_t>(tenant.devices.size()), "GPU") + ", not " +
                           std::to_string(to.size()));
  }
  GpuSet named;
  for (const GpuIndex index : to) {
    const std::string gpu = "GPU " + std::to_string(index);
    if (!gpus_.contains(index)) return NotFound("there is no " + gpu);
    if (named.Contains(index)) return InvalidArgument(gpu + " is named twice");
    named.Insert(index);
  }
  return {};
}

bool NodeOccupancy::IsAnyInFlight() const {
  return std::any_of(tenants_.begin(), tenants_.end(), [&](const auto& entry) { return IsInFlight(entry.second); });
}

bool NodeOccupancy::IsParkedWaiting() const {
  return std::any_of(tenants_.begin(), tenants_.end(), [](const auto& entry) {
    return entry.second.state == State::kParked && entry.second.wants_to_wake && !entry.second.is_displaced;
  });
}

Time NodeOccupancy::WholeLeftAt(GpuIndex gpu) const {
  const auto left_at = left_at_.find(gpu);
  return left_at == left_at_.end() ? kNoTime : left_at->second;
}

std::string NodeOccupancy::CheckInvariants() const {
  for (const auto& [id, tenant] : tenants_) {
    GpuSet held;
    for (const Device& device : tenant.devices) {
      const GpuIndex gpu = device.target.value_or(device.gpu);
      if (tenant.state != State::kArriving && held.Contains(gpu)) {
        return TenantText(id) + " has GPU " + std::to_string(gpu) + " for two of its devices";
      }
      held.Insert(gpu);
      if (tenant.state == State::kHere && device.used > device.ceiling)
        return TenantText(id) + " uses more than its ceiling";
      if (tenant.state == State::kParked && device.ceiling != Bytes(0))
        return TenantText(id) + " has a ceiling while parked";
      const bool is_brought = tenant.state == State::kMoving || tenant.state == State::kWaking;
      if (device.target.has_value() != is_brought)
        return TenantText(id) + " has a target GPU, but neither moves nor wakes";
    }
  }
  for (const auto& [index, gpu] : gpus_) {
    Bytes used;
    for (const auto& [id, tenant] : tenants_) {
      ForEachOccupied(tenant, [&, &counted = tenant](unsigned device, GpuIndex held) {
        if (held == index) used += std::max(counted.devices[device].used, Bytes(0));
      });
    }
    // Memory that the driver itself uses for processes (residuals) grows without a request, so the memory in use can
    // exceed a GPU. Ceilings may exceed it only by memory in use.
    const Bytes ceilings = LoadOf(index).ceilings;
    if (ceilings > gpu.capacity && ceilings > used && !pushed_over_.contains(index)) {
      return "the ceilings on GPU " + std::to_string(index) + " are " + BytesText(ceilings) + " of " +
             BytesText(gpu.capacity);
    }
    if (gpu.is_ready && LoadOf(index).tenants > 0)
      return "a job with whole GPUs was given GPU " + std::to_string(index) + ", which has tenants";
  }
  return "";
}

}  // namespace divvy::sharing
