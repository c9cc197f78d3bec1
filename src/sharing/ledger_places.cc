// Placement: empties GPUs for whole jobs, makes new requests fit, and spreads tenants over empty GPUs.
#include "sharing/holds.h"
#include "sharing/ledger.h"
#include "sharing/packing.h"
#include "sharing/words.h"

namespace divvy::sharing {
namespace {

constexpr Duration kControlState = 200ms;  // Cost of a move in addition to its bytes.
constexpr Duration kBusy = 500ms;          // Extra cost of interrupting a busy tenant instead of an idle one.
constexpr Duration kMovedLately = 60s;     // A tenant moved within this time is moved again only if others cost more.

}  // namespace

/// Builds the packing problem of the node. Tenants must leave the GPUs in `leaving`, and no tenant may move to a GPU
/// that is withheld or unusable. A moving or waking tenant counts at its target; one that is being parked counts
/// nowhere. `seeker`: a tenant without GPUs that needs some.
SharePlanner::Packing SharePlanner::PackingOf(GpuSet leaving, const Tenant* seeker) const {
  Packing packing;
  for (const auto& [index, gpu] : gpus_) {
    packing.gpus.push_back(index);
    packing.problem.gpus.push_back({gpu.capacity, GpuShare::kWhole, std::max<std::int64_t>(gpu.bytes_per_second, 1)});
  }
  for (const auto& [id, tenant] : tenants_) {
    const bool is_off =
        tenant.state == State::kParked || tenant.state == State::kArriving || tenant.state == State::kParking;
    if (is_off && &tenant != seeker) continue;
    PackTenant packed;
    packed.request = tenant.share.memory_request;
    packed.compute = tenant.share.compute_request.ten_thousandths();
    packed.can_move = &tenant == seeker || (tenant.state == State::kHere && WhyStays(tenant).empty());
    packed.penalty = kControlState + (IsIdle(tenant) ? Duration(0) : kBusy) +
                     (tenant.state == State::kHere && !HasStayed(tenant) ? kMovedLately : Duration(0));
    packed.factor = IsIdle(tenant) ? 1 : 2;
    for (const Device& device : tenant.devices) {
      packed.paper.push_back(packing.NumberOfGpu(device.paper));
      packed.liked.push_back(packing.NumberOfGpu(tenant.state == State::kParked ? device.gpu : device.paper));
      packed.used.push_back(device.used);
      if (&tenant != seeker) packed.at.push_back(packing.NumberOfGpu(device.target.value_or(device.gpu)));
      packed.must_leave |= tenant.state == State::kHere && leaving.Contains(device.gpu);
    }
    // An immovable tenant starts on its planned GPUs, and after parking returns to the GPUs that it had.
    const bool is_bound = &tenant == seeker && !tenant.why_cannot_move.empty();
    for (const auto& [index, gpu] : gpus_) {
      if (!IsOpen(index) || gpu.kind != gpus_.at(tenant.devices.front().gpu).kind) continue;
      const int number = packing.NumberOfGpu(index);
      const auto& bound = tenant.state == State::kParked ? packed.liked : packed.paper;
      if (is_bound && std::count(bound.begin(), bound.end(), number) == 0) continue;
      packed.allowed |= std::uint64_t{1} << number;
    }
    packing.tenants.push_back(id);
    packing.problem.tenants.push_back(std::move(packed));
  }
  return packing;
}

void SharePlanner::ReportUnusable() {
  for (const auto& [id, tenant] : tenants_) {
    ForEachHold(tenant, [&](unsigned, GpuIndex gpu) {
      if (const std::string& why = gpus_.at(gpu).why_unusable; !why.empty()) {
        FailForGpu(id, "is on GPU " + std::to_string(gpu) + ", which " + why);
      }
    });
  }
}

void SharePlanner::FailForGpu(TenantId id, const std::string& why) {
  fails_for_gpu_.insert(id);
  FailTenant(id, why);
}

void SharePlanner::TakeBackFailures() {
  for (const TenantId& id : failed_for_gpu_) {
    if (!fails_for_gpu_.contains(id) && tenants_.contains(id)) FailTenant(id, "");
  }
  failed_for_gpu_ = std::exchange(fails_for_gpu_, {});
}

void SharePlanner::EmptyWholes() {
  for (const auto& [job, gpus] : wholes_) EmptyWhole(job, gpus);
}

void SharePlanner::EmptyWhole(std::uint64_t job, GpuSet gpus) {
  bool is_empty = true;
  bool is_ready = true;
  for (const auto& [index, gpu] : gpus_) {
    if (gpu.whole_job != job) continue;
    is_empty &= LoadOf(index).tenants == 0;
    is_ready &= gpu.is_ready;
  }
  if (is_ready) return;
  if (is_empty) {
    for (auto& [index, gpu] : gpus_) gpu.is_ready |= gpu.whole_job == job;
    said_of_jobs_.erase(job);
    return Say(Ready{job});
  }
  const Packing packing = PackingOf(gpus, nullptr);
  const std::optional<PackPlan> plan = Repack(packing.problem);
  const bool is_under_way = plan ? CarryOut(packing, plan->to, gpus) : IsAnyInFlight();
  if (is_under_way) said_of_jobs_.erase(job);
  else FailJob(job, WhoBlocks(gpus));
}

// Handles tenants one by one, so that one that cannot leave does not keep the others there.
void SharePlanner::EmptyWithheld() {
  for (auto& [id, tenant] : tenants_) {
    if (tenant.state != State::kHere) continue;
    for (const Device& device : tenant.devices) {
      const Gpu& gpu = gpus_.at(device.gpu);
      // AcquireExclusive has already emptied this GPU or reported why that failed.
      if (gpu.why_withheld.empty() || gpu.whole_job != 0) continue;
      const std::string why = WhyStays(tenant);
      if (why.empty() && LeaveWithheld(tenant)) break;
      FailForGpu(id, "is on GPU " + std::to_string(device.gpu) + ", which " + gpu.why_withheld +
                         ", and cannot leave it: " + (why.empty() ? "no other GPU has room for it" : why));
      break;
    }
  }
}

/// Returns true if the tenant is leaving, or if others move to make room for it.
bool SharePlanner::LeaveWithheld(Tenant& tenant) {
  Packing packing = PackingOf({}, nullptr);
  const auto at = std::ranges::find(packing.tenants, tenant.id);
  if (at == packing.tenants.end()) return false;
  packing.problem.tenants[static_cast<std::size_t>(at - packing.tenants.begin())].must_leave = true;
  const std::optional<PackPlan> plan = Repack(packing.problem);
  if (!plan) return false;
  GpuSet leaving;
  for (const Device& device : tenant.devices) {
    if (!gpus_.at(device.gpu).why_withheld.empty()) leaving.Insert(device.gpu);
  }
  return CarryOut(packing, plan->to, leaving);
}

/// Returns which tenants cannot leave these GPUs. If there are none: which tenants cannot leave GPUs where others
/// belong.
std::string SharePlanner::WhoBlocks(GpuSet gpus) const {
  std::string there;
  std::string elsewhere;
  for (const auto& [id, tenant] : tenants_) {
    const std::string why = WhyStays(tenant);
    if (why.empty()) continue;
    ForEachHold(tenant, [&, &at = tenant](unsigned device, GpuIndex gpu) {
      std::string& text = gpus.Contains(gpu) ? there : elsewhere;
      if (!gpus.Contains(gpu) && gpu == at.devices[device].paper) return;
      text += (text.empty() ? "" : "; ") + TenantText(at.id) + " stays on GPU " + std::to_string(gpu) + ": " + why;
    });
  }
  if (!there.empty()) return there;
  if (elsewhere.empty()) elsewhere = "no other GPUs have room for the tenants there";
  // Adds the state of the GPUs that could have taken the tenants.
  for (const auto& [index, gpu] : gpus_) {
    const std::string& why = gpu.why_unusable.empty() ? gpu.why_withheld : gpu.why_unusable;
    if (!gpus.Contains(index) && !why.empty()) elsewhere += "; GPU " + std::to_string(index) + " " + why;
  }
  return elsewhere;
}

/// Moves tenants off GPUs whose requests exceed their capacity, after a resize or a loss of capacity.
void SharePlanner::Uncrowd() {
  for (const auto& [index, gpu] : gpus_) {
    const Load load = LoadOf(index);
    if (load.requests <= gpu.capacity && load.compute <= GpuShare::kWhole) continue;
    const Packing packing = PackingOf({}, nullptr);
    if (const std::optional<PackPlan> plan = Repack(packing.problem)) CarryOut(packing, plan->to, {});
    return;
  }
}

bool SharePlanner::IsAnyInFlight() const {
  return std::any_of(tenants_.begin(), tenants_.end(), [&](const auto& entry) { return IsInFlight(entry.first); });
}

bool SharePlanner::CarryOut(const Packing& packing, const std::vector<std::vector<int>>& to, GpuSet leaving,
                            bool may_park) {
  std::vector<std::pair<Duration, std::size_t>> movers;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto tenant = tenants_.find(packing.tenants[i]);
    const bool moves = to[i] != packing.problem.tenants[i].at && tenant->second.state == State::kHere;
    if (moves) movers.emplace_back(MoveCost(packing.problem, i, to[i]), i);
  }
  std::sort(movers.begin(), movers.end());
  bool is_under_way = false;
  for (const auto& [cost, i] : movers) {
    is_under_way |= StartMove(tenants_.at(packing.tenants[i]), packing.GpusOf(to[i])) != Room::kNone;
  }
  if (is_under_way || IsAnyInFlight()) return true;
  if (!may_park) return false;
  // The movers block each other, or bring more than their requests. One of them goes to the host first.
  for (const bool is_asked : {true, false}) {
    for (const auto& [cost, i] : movers) {
      Tenant& tenant = tenants_.at(packing.tenants[i]);
      const std::vector<GpuIndex> at = GpusOf(tenant);
      const bool leaves = std::any_of(at.begin(), at.end(), [&](GpuIndex gpu) { return leaving.Contains(gpu); });
      if (leaves != is_asked || !WhyKeepsGpu(tenant).empty()) continue;
      StartPark(tenant, ParkedBy::kOnItsWay, "makes room; returns on another GPU");
      return true;
    }
  }
  return false;
}

/// Returns kUnderWay if ceilings must be lowered first. The caller has checked that the tenant may be moved.
SharePlanner::Room SharePlanner::StartMove(Tenant& tenant, const std::vector<GpuIndex>& to) {
  const std::vector<GpuIndex> from = GpusOf(tenant);
  bool is_lowering = false;
  std::vector<GpuIndex> fresh;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] != from[i]) fresh.push_back(to[i]);
  }
  if (!RequestsFit(tenant, fresh)) return Room::kNone;
  for (unsigned device = 0; device < to.size(); ++device) {
    const Device& at = tenant.devices[device];
    if (to[device] == from[device] || Free(to[device]) >= at.ceiling) continue;
    if (Free(to[device]) + Slack(to[device], &tenant) < at.used) {
      return IsBeingFreed(to[device]) ? Room::kUnderWay : Room::kNone;
    }
  }
  for (unsigned device = 0; device < to.size(); ++device) {
    const Device& at = tenant.devices[device];
    if (to[device] == from[device] || Free(to[device]) >= at.ceiling) continue;
    is_lowering = true;
    if (at.ceiling > at.used && !lowering_.contains({tenant.id, device})) Lower(tenant, device, at.used);
    if (Free(to[device]) < at.used) LowerIdle(to[device], at.used, &tenant);
  }
  for (unsigned device = 0; device < to.size(); ++device) is_lowering |= lowering_.contains({tenant.id, device});
  if (is_lowering) return Room::kUnderWay;
  tenant.state = State::kMoving;
  for (std::size_t i = 0; i < to.size(); ++i) tenant.devices[i].target = to[i];
  Issue(Move{tenant.id, from, to});
  return Room::kReady;
}

void SharePlanner::StartPark(Tenant& tenant, ParkedBy by, const std::string& why) {
  tenant.state = State::kParking;
  tenant.wants_to_wake = (by == ParkedBy::kLedger || by == ParkedBy::kOnItsWay) && tenant.is_active;
  Issue(Park{tenant.id, why}, by);
}

void SharePlanner::StartWake(Tenant& tenant, const std::vector<GpuIndex>& to) {
  tenant.state = State::kWaking;
  for (unsigned device = 0; device < to.size(); ++device) {
    Device& at = tenant.devices[device];
    at.target = to[device];
    at.ceiling = at.used;
    Issue(SetCeiling{tenant.id, device, at.ceiling});
  }
  Issue(Wake{tenant.id, to});
}

void SharePlanner::PlaceNew(Tenant& tenant, const std::vector<GpuIndex>& to) {
  Say(Place{tenant.id, to});
  for (unsigned device = 0; device < to.size(); ++device) {
    Device& at = tenant.devices[device];
    at.ceiling = std::max(std::min(tenant.share.memory_request, Free(to[device])), Bytes(0));
    at.gpu = to[device];
    Issue(SetCeiling{tenant.id, device, at.ceiling});
  }
  tenant.state = State::kHere;
  tenant.last_move = now_;
}

void SharePlanner::MoveAsAsked() {
  for (auto at = asked_moves_.begin(); at != asked_moves_.end();) {
    Tenant& tenant = tenants_.at(at->first);
    const std::vector<GpuIndex>& to = at->second;
    Room room = Room::kNone;
    std::string why = "there is no room left";
    const bool is_allowed =
        tenant.state == State::kHere && to != GpusOf(tenant) && WhyStays(tenant).empty() &&
        std::all_of(to.begin(), to.end(), [&](GpuIndex gpu) {
          return IsOpen(gpu) || std::count_if(tenant.devices.begin(), tenant.devices.end(),
                                              [&](const Device& device) { return device.gpu == gpu; }) > 0;
        });
    if (is_allowed) room = StartMove(tenant, to);
    for (unsigned device = 0; is_allowed && room == Room::kNone && IsWithinRequest(tenant) && device < to.size();
         ++device) {
      if (to[device] == tenant.devices[device].gpu || !RequestsFit(tenant, {to[device]})) continue;
      if (MakeRoom(to[device], tenant.devices[device].used, &tenant, Right::kRequest, &why) == Room::kUnderWay) {
        room = Room::kUnderWay;
      }
    }
    if (room == Room::kNone && to != GpusOf(tenant)) FailTenant(at->first, "was not moved as requested: " + why);
    if (room == Room::kUnderWay) ++at;
    else at = asked_moves_.erase(at);
  }
}

void SharePlanner::ParkAsAsked() {
  std::erase_if(asked_parks_, [&](TenantId id) {
    Tenant& tenant = tenants_.at(id);
    // Retried when the tenant has arrived.
    if (tenant.state == State::kMoving || tenant.state == State::kWaking) return false;
    if (tenant.state == State::kHere && WhyKeepsGpu(tenant).empty()) StartPark(tenant, ParkedBy::kUser, "on request");
    return true;
  });
}

void SharePlanner::ParkIdle() {
  for (auto& [id, tenant] : tenants_) {
    const bool can = tenant.state == State::kHere && tenant.share.idle_park > Duration(0) && !tenant.is_active &&
                     WhyKeepsGpu(tenant).empty();
    const bool wants =
        std::any_of(wants_.begin(), wants_.end(), [&, of = id](const OpenWant& want) { return want.tenant == of; }) ||
        std::any_of(pins_.begin(), pins_.end(), [of = id](const auto& pin) { return pin.second == of; });
    if (!can || wants) continue;
    const Time due = AddSaturating(tenant.last_active, tenant.share.idle_park);
    if (now_ < due) NoteTime(due);
    else StartPark(tenant, ParkedBy::kIdle, "idle");
  }
}

/// Moves one of several busy tenants of a GPU to a GPU that is empty or has only idle tenants. Moves one tenant at a
/// time, and only while nothing else is pending.
void SharePlanner::Spread() {
  if (!settings_.can_spread || !wants_.empty() || !waits_.empty() || !in_flight_.empty()) return;
  for (const bool is_idle_enough : {false, true}) {
    for (const auto& [quiet, gpu] : gpus_) {
      if (!IsOpen(quiet) || (LoadOf(quiet).tenants == 0) == is_idle_enough) continue;
      if (!HasStoodEmpty(quiet) || !IsQuiet(quiet)) continue;
      for (const auto& [crowded, other] : gpus_) {
        if (crowded != quiet && other.kind == gpu.kind && other.whole_job == 0 && SpreadFrom(crowded, quiet)) return;
      }
    }
  }
}

/// Returns true if the GPU has been empty long enough. When whole jobs follow one another (an array or a queue), the
/// next one would only have to move a tenant away again.
bool SharePlanner::HasStoodEmpty(GpuIndex gpu) {
  const auto left_at = left_at_.find(gpu);
  if (left_at == left_at_.end()) return true;
  const Time due = AddSaturating(left_at->second, settings_.stood_empty);
  if (now_ < due) NoteTime(due);
  return now_ >= due;
}

/// Returns true if all tenants there have been idle for `idle_after`.
bool SharePlanner::IsQuiet(GpuIndex gpu) {
  return std::ranges::all_of(tenants_, [&](const auto& entry) {
    const Tenant& tenant = entry.second;
    if (!Holds(tenant, gpu)) return true;
    if (!tenant.is_active && !IsIdle(tenant)) NoteTime(AddSaturating(tenant.last_active, settings_.idle_after));
    return IsIdle(tenant);
  });
}

bool SharePlanner::SpreadFrom(GpuIndex crowded, GpuIndex quiet) {
  int busy = 0;
  bool can_gain = false;  // A tenant there can use more than its request.
  std::vector<Tenant*> movers;
  for (auto& [id, tenant] : tenants_) {
    if (tenant.state != State::kHere || !Holds(tenant, crowded)) continue;
    busy += tenant.is_active ? 1 : 0;
    can_gain |= tenant.is_active && (tenant.share.memory_limit > tenant.share.memory_request ||
                                     tenant.share.compute_limit > tenant.share.compute_request);
    const bool can = tenant.devices.size() == 1 && WhyStays(tenant).empty() && tenant.devices[0].ceiling <= Free(quiet);
    if (can) movers.push_back(&tenant);
  }
  if (busy < 2 || !can_gain) return false;
  const auto rank = [&](const Tenant* tenant) {
    return std::tuple(tenant->devices[0].paper != quiet, tenant->devices[0].used.count(), tenant->id);
  };
  std::sort(movers.begin(), movers.end(), [&](const Tenant* a, const Tenant* b) { return rank(a) < rank(b); });
  for (Tenant* tenant : movers) {
    if (!HasStayed(*tenant)) NoteTime(AddSaturating(tenant->last_move, settings_.least_stay));
    else if (tenant->is_active && StartMove(*tenant, {quiet}) != Room::kNone) return true;
  }
  return false;
}

Duration SharePlanner::RepackBound(GpuSet gpus) const {
  SharePlanner tried = *this;
  tried.AcquireExclusive(~std::uint64_t{0}, gpus);
  Packing packing = tried.PackingOf(gpus, nullptr);
  // First the plan that will be carried out, chosen by its cost to tenants; then its duration.
  const std::optional<PackPlan> plan = Repack(packing.problem);
  if (!plan) return Duration::max();
  for (PackTenant& tenant : packing.problem.tenants) {
    tenant.factor = 1;
    tenant.penalty = kControlState;
  }
  Duration bound = settings_.slack;
  // Tenants that are already in flight, on any GPU, are awaited first.
  for (const auto& [id, tenant] : tenants_) {
    if (!IsInFlight(id)) continue;
    bound += kControlState;
    for (const Device& device : tenant.devices) {
      const double seconds = 2 * static_cast<double>(device.used.count()) /
                             static_cast<double>(std::max<std::int64_t>(gpus_.at(device.gpu).bytes_per_second, 1));
      bound += Duration(static_cast<std::int64_t>(seconds * 1e9));
    }
  }
  for (std::size_t i = 0; i < plan->to.size(); ++i) bound += MoveCost(packing.problem, i, plan->to[i]);
  return bound;
}

}  // namespace divvy::sharing
