#include "sharing/ledger.h"

#include "base/text.h"
#include "sharing/holds.h"
#include "sharing/words.h"

namespace divvy::sharing {

void SharePlanner::SetGpu(const Gpu& gpu) {
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
  if (Free(gpu.index) < Bytes(0)) pushed_over_.insert(gpu.index);
}

void SharePlanner::AcquireExclusive(std::uint64_t job, GpuSet gpus) {
  ReleaseExclusive(job);
  wholes_[job] = gpus;
  for (auto& [index, gpu] : gpus_) {
    if (!gpus.Contains(index)) continue;
    gpu.whole_job = job;
    gpu.is_ready = false;
  }
}

void SharePlanner::ReleaseExclusive(std::uint64_t job) {
  wholes_.erase(job);
  said_of_jobs_.erase(job);
  for (auto& [index, gpu] : gpus_) {
    if (gpu.whole_job != job) continue;
    gpu.whole_job = 0;
    gpu.is_ready = false;
    left_at_[index] = kNoTime;
  }
}

Status SharePlanner::CheckShare(const Tenant& tenant) const {
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
  GpuSet paper;
  for (const Device& device : tenant.devices) {
    if (!gpus_.contains(device.paper)) return NotFound(name + ": there is no GPU " + std::to_string(device.paper));
    if (paper.Contains(device.paper)) {
      return InvalidArgument(name + ": GPU " + std::to_string(device.paper) + " is named twice");
    }
    paper.Insert(device.paper);
  }
  for (const int gpu : paper.ToVector()) {
    Bytes memory = share.memory_request;
    GpuShare compute = share.compute_request;
    for (const auto& [id, other] : tenants_) {
      if (id == tenant.id) continue;
      for (const Device& device : other.devices) {
        if (device.paper != gpu) continue;
        memory += other.share.memory_request;
        compute = compute + other.share.compute_request;
      }
    }
    const Bytes capacity = gpus_.at(static_cast<GpuIndex>(gpu)).capacity;
    if (memory > capacity) {
      return LimitExceeded(name + ": the requests on GPU " + std::to_string(gpu) + " would be " + BytesText(memory) +
                           " of " + BytesText(capacity));
    }
    if (compute > GpuShare(GpuShare::kWhole)) {
      return LimitExceeded(name + ": the requests for GPU " + std::to_string(gpu) +
                           "'s time would exceed the whole GPU");
    }
  }
  return {};
}

Status SharePlanner::AddTenant(const Tenant& tenant) {
  if (tenants_.contains(tenant.id)) return Error{ErrorCode::kAlreadyExists, TenantText(tenant.id) + " already exists"};
  DIVVY_CHECK(CheckShare(tenant));
  Tenant& added = tenants_[tenant.id] = tenant;
  added.state = State::kArriving;
  added.parked_by = ParkedBy::kNobody;
  added.wants_to_wake = false;
  added.is_lost = false;
  for (Device& device : added.devices) {
    device = Device{.paper = device.paper, .gpu = device.paper, .target = std::nullopt, .used = {}, .ceiling = {}};
  }
  return {};
}

Status SharePlanner::LoadTenant(const Tenant& tenant) {
  const std::string name = TenantText(tenant.id);
  if (tenants_.contains(tenant.id)) return Error{ErrorCode::kAlreadyExists, name + " already exists"};
  if (tenant.devices.empty()) return InvalidArgument(name + ": a tenant needs at least one GPU");
  for (const Device& device : tenant.devices) {
    if (!gpus_.contains(device.paper) || !gpus_.contains(device.gpu)) {
      return NotFound(name + ": there is no GPU " +
                      std::to_string(gpus_.contains(device.paper) ? device.gpu : device.paper));
    }
  }
  const bool is_settled =
      tenant.state == State::kHere || tenant.state == State::kParked || tenant.state == State::kArriving;
  if (!is_settled) return InvalidArgument(name + ": a tenant is loaded as running, parked or arriving");
  Tenant& loaded = tenants_[tenant.id] = tenant;
  if (loaded.state != State::kParked) loaded.parked_by = ParkedBy::kNobody;
  for (Device& device : loaded.devices) {
    device.target.reset();
    if (loaded.state != State::kHere) device.ceiling = {};
    else device.ceiling = std::max(device.ceiling, device.used);
    if (Free(device.gpu) < Bytes(0)) pushed_over_.insert(device.gpu);
  }
  return {};
}

void SharePlanner::RemoveTenant(TenantId id) {
  tenants_.erase(id);
  std::erase_if(wants_, [&](const OpenWant& want) { return want.tenant == id; });
  std::erase_if(in_flight_, [&](const auto& entry) {
    return std::visit(
        [&](const auto& deed) {
          if constexpr (requires { deed.borrower; }) return deed.borrower == id;
          else if constexpr (requires { deed.tenant; }) return deed.tenant == id;
          else return false;
        },
        entry.second.deed);
  });
  const auto is_of_it = [&](const auto& entry) { return entry.first.first == id; };
  std::erase_if(granted_, is_of_it);
  std::erase_if(wishes_, is_of_it);
  std::erase_if(lowering_, [&](const DeviceKey& key) { return key.first == id; });
  std::erase_if(left_, is_of_it);
  std::erase_if(pins_, [&](const auto& pin) { return pin.second == id; });
  binding_.erase(id);
  asked_moves_.erase(id);
  asked_parks_.erase(id);
  refusals_.erase(id);
  shrunk_.erase(id);
  requeued_.erase(id);
  waits_.erase(id);
  said_of_tenants_.erase(id);
}

// Sets the planned GPUs. A device that is on one of them keeps it; the other devices get the rest in order.
Status SharePlanner::TakePaper(GpuSet paper, Tenant& tenant) {
  if (static_cast<std::size_t>(paper.size()) != tenant.devices.size())
    return InvalidArgument(TenantText(tenant.id) + " has fractions of " + std::to_string(tenant.devices.size()) +
                           " GPUs, but its new plan names " + std::to_string(paper.size()));
  GpuSet left = paper;
  for (Device& device : tenant.devices) {
    if (!paper.Contains(device.gpu)) continue;
    device.paper = device.gpu;
    left.Erase(device.gpu);
  }
  for (Device& device : tenant.devices) {
    if (paper.Contains(device.gpu)) continue;
    device.paper = static_cast<GpuIndex>(left.ToVector().front());
    left.Erase(device.paper);
  }
  return {};
}

Status SharePlanner::Resize(TenantId id, const Share& share, std::optional<GpuSet> paper) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end()) return NotFound(TenantText(id) + " has no GPU fraction on this node");
  Tenant changed = at->second;
  changed.share = share;
  if (paper) DIVVY_CHECK(TakePaper(*paper, changed));
  DIVVY_CHECK(CheckShare(changed));
  at->second.share = share;
  at->second.devices = std::move(changed.devices);
  return {};
}

void SharePlanner::SetUse(TenantId id, unsigned device, Bytes used_and_residual) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end() || device >= at->second.devices.size()) return;
  // While the tenant is off its GPU, the last count is what it needs to wake. During a move or park, the count only
  // rises until the gate is closed.
  const State state = at->second.state;
  if (state != State::kHere && state != State::kMoving && state != State::kParking) return;
  Device& here = at->second.devices[device];
  here.used = std::max(used_and_residual, state == State::kHere ? Bytes(0) : here.used);
  // A residual comes without a request, so the ceiling follows it. A parking tenant needs no more than it had.
  if (state != State::kParking) here.ceiling = std::max(here.ceiling, here.used);
  if (Free(here.gpu) < Bytes(0)) pushed_over_.insert(here.gpu);
  const auto granted = granted_.find({id, device});
  if (granted != granted_.end() && here.used >= granted->second.need) granted_.erase(granted);
}

void SharePlanner::SetLeft(TenantId id, unsigned device, Bytes left) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end() || device >= at->second.devices.size() || at->second.state != State::kParking) return;
  left_[{id, device}] = std::max(left, Bytes(0));
}

void SharePlanner::SetActivity(TenantId id, bool is_active, Time now) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end()) return;
  at->second.is_active = is_active;
  if (is_active) at->second.last_active = now;
}

void SharePlanner::SetCannot(TenantId id, std::string why_cannot_move, std::string why_cannot_park) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end()) return;
  at->second.why_cannot_move = std::move(why_cannot_move);
  at->second.why_cannot_park = std::move(why_cannot_park);
}

void SharePlanner::Want(TenantId id, unsigned device, Bytes bytes, std::uint64_t request) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end() || device >= at->second.devices.size()) return;
  wants_.push_back({.tenant = id, .device = device, .bytes = std::max(bytes, Bytes(0)), .request = request});
  if (at->second.state == State::kParked) at->second.wants_to_wake = true;
}

void SharePlanner::ForgetWant(TenantId id, std::uint64_t request) {
  // The keeper may have let the call continue before the tenant was settled, so it may bind now.
  if (pins_.erase(request) > 0) binding_[id] = AddSaturating(now_, settings_.binds_within);
  std::erase_if(wants_, [&](const OpenWant& want) { return want.tenant == id && want.request == request; });
}

void SharePlanner::WantWake(TenantId id) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end()) return;
  const bool is_off = at->second.state == State::kParked || at->second.state == State::kParking;
  if (is_off) at->second.wants_to_wake = true;
}

Status SharePlanner::ParkByUser(TenantId id) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end()) return NotFound(TenantText(id) + " has no GPU fraction on this node");
  const Tenant& tenant = at->second;
  if (tenant.state == State::kParked || tenant.state == State::kParking) return {};
  if (const std::string why = WhyKeepsGpu(tenant); !why.empty()) {
    return FailedPrecondition(TenantText(id) + " cannot be parked: " + why);
  }
  if (tenant.state == State::kArriving) return FailedPrecondition(TenantText(id) + " has no GPU yet");
  asked_parks_.insert(id);
  return {};
}

Status SharePlanner::WakeByUser(TenantId id) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end()) return NotFound(TenantText(id) + " has no GPU fraction on this node");
  asked_parks_.erase(id);
  WantWake(id);
  refusals_.erase(id);
  return {};
}

Status SharePlanner::MoveByUser(TenantId id, const std::vector<GpuIndex>& to) {
  const auto at = tenants_.find(id);
  if (at == tenants_.end()) return NotFound(TenantText(id) + " has no GPU fraction on this node");
  const Tenant& tenant = at->second;
  const std::string name = TenantText(id);
  if (!tenant.why_cannot_move.empty()) return FailedPrecondition(name + " cannot be moved: " + tenant.why_cannot_move);
  if (tenant.state != State::kHere || tenant.is_lost) {
    return FailedPrecondition(name + " is not on its GPU" + (tenant.state == State::kParked ? "; wake it first" : ""));
  }
  if (to.size() != tenant.devices.size()) {
    return InvalidArgument(name + " has " + Plural(static_cast<std::int64_t>(tenant.devices.size()), "GPU") + ", not " +
                           std::to_string(to.size()));
  }
  GpuSet named;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::string gpu = "GPU " + std::to_string(to[i]);
    const auto there = gpus_.find(to[i]);
    if (there == gpus_.end()) return NotFound("there is no " + gpu);
    if (named.Contains(to[i])) return InvalidArgument(gpu + " is named twice");
    named.Insert(to[i]);
    if (to[i] == tenant.devices[i].gpu) continue;
    if (!there->second.why_unusable.empty())
      return FailedPrecondition(gpu + " cannot be used: it " + there->second.why_unusable);
    if (!there->second.why_withheld.empty())
      return FailedPrecondition(gpu + " does not accept GPU fractions now: it " + there->second.why_withheld);
    if (there->second.whole_job >= kFirstCut) return FailedPrecondition(gpu + " is cut into MIG instances");
    if (there->second.whole_job != 0) {
      return FailedPrecondition(gpu + " is allocated to job " + std::to_string(there->second.whole_job) +
                                ", which uses the whole GPU");
    }
    if (there->second.kind != gpus_.at(tenant.devices[i].gpu).kind) {
      return FailedPrecondition(gpu + " is a different model than GPU " + std::to_string(tenant.devices[i].gpu));
    }
  }
  if (!RequestsFit(tenant, to)) {
    return FailedPrecondition("there is no room for the request of " + name + " next to the requests of other tenants");
  }
  asked_moves_[id] = to;
  return {};
}

std::vector<Order> SharePlanner::Decide(Time now) {
  now_ = now;
  next_decision_ = kNever;
  claimed_.clear();
  waits_.clear();
  std::erase_if(granted_, [&](const auto& entry) { return entry.second.until <= now; });
  std::erase_if(wishes_, [&](const auto& entry) { return entry.second.until <= now; });
  std::erase_if(refusals_, [&](const auto& entry) { return entry.second.until <= now; });
  std::erase_if(binding_, [&](const auto& entry) { return entry.second <= now; });
  std::erase_if(pushed_over_, [&](GpuIndex gpu) { return Free(gpu) >= Bytes(0); });
  for (auto& [id, tenant] : tenants_) {
    if (tenant.last_active == kNoTime) tenant.last_active = now;
  }
  for (auto& [gpu, left_at] : left_at_) {
    if (left_at == kNoTime) left_at = now;
  }
  for (const auto& [id, refusal] : refusals_) NoteTime(refusal.until);
  ReportUnusable();
  KeepBounds();
  EmptyWholes();
  SettlePins();
  EmptyWithheld();
  TakeBackFailures();
  MoveAsAsked();
  ParkAsAsked();
  Uncrowd();
  // First tenants and requests within their share's request, then borrowers.
  for (const Right right : {Right::kRequest, Right::kLoan}) {
    SeatSeekers(right);
    AnswerWants(right);
  }
  LowerLeaving();
  ParkIdle();
  Spread();
  return std::exchange(orders_, {});
}

std::uint64_t SharePlanner::Issue(Deed deed, ParkedBy parked_by) {
  const std::uint64_t id = next_order_++;
  in_flight_.emplace(id, InFlight{deed, parked_by});
  orders_.push_back({id, std::move(deed)});
  return id;
}

bool SharePlanner::IsInFlight(TenantId id) const {
  const Tenant* tenant = Find(id);
  return tenant != nullptr && !tenant->is_lost &&
         (tenant->state == State::kMoving || tenant->state == State::kParking || tenant->state == State::kWaking);
}

void SharePlanner::FailJob(std::uint64_t job, const std::string& why) {
  std::string& said = said_of_jobs_[job];
  if (said == why) return;
  said = why;
  Say(Failed{.job = job, .tenant = {}, .why = why});
}

void SharePlanner::FailTenant(TenantId id, const std::string& why) {
  std::string& said = said_of_tenants_[id];
  if (said == why) return;
  said = why;
  Say(Failed{.job = 0, .tenant = id, .why = why});
}

}  // namespace divvy::sharing
